"""Write the functions of an export whose network gives values: sums over members, their means and variances."""

from __future__ import annotations

from blrc.program.program import Program

Facts = list[tuple[str, object, str]]


def macros(program: Program) -> Facts:
    """Return the macros that say what the values stand for: those of each head, if there are several."""
    found: Facts = [("VALUES", program.classes, "elements (int32_t) of the output")]
    real = "real value = scale x value + offset:"
    if not program.heads:
        (unit,) = program.units
        scale = ("SCALE", _literal(unit.scale), f"{real} the scale,")
        return [*found, scale, ("OFFSET", _literal(unit.offset), "and the offset")]
    found.insert(0, ("HEADS", len(program.heads), f"parts of the output with a unit of their own; {real}"))
    for each, part, unit in zip(program.heads, program.parts, program.units, strict=True):
        word = each.name.upper()
        found += [
            (f"START_{word}", part.place.start, f"the head {each.name}: where its values begin,"),
            (f"VALUES_{word}", each.classes, "how many there are,"),
            (f"SCALE_{word}", _literal(unit.scale), "their scale,"),
            (f"OFFSET_{word}", _literal(unit.offset), "and their offset"),
        ]
    return found


def _literal(number: float) -> str:
    """Return the shortest decimal constant from which a compiler gets this float64 back."""
    return f"({number!r})" if number < 0 else repr(number)


DECLARATIONS = """\
/* What the members so far say of one input: sums over members for each value. Yours to keep; the functions fill it. */
typedef struct name_ensemble {
    uint32_t members; /* how many have been added */
    NAME_ALIGNED(4) int32_t sum[NAME_VALUES];
    NAME_ALIGNED(8) uint64_t squares[NAME_VALUES]; /* the sum of their squares */
} name_ensemble;

/* Begin with another input. 0, or NAME_ERROR_NULL. */
int name_init(name_ensemble *ensemble);

/* Run the next member on the input, which must be the same for all. 0, or a negative NAME_ERROR_*. */
int name_add(name_ensemble *ensemble, const INPUT_TYPE *input, void *arena);

/* What the members so far say. 0, or a negative NAME_ERROR_*.
 *
 * values: NAME_VALUES results, the means over members, rounded to nearest, halves up.
 * variances: NAME_VALUES results, or null: how much members disagree, the population variances in squared units of the
 * values, rounded down. */
int name_result(const name_ensemble *ensemble, int32_t *values, uint64_t *variances);

/* All members, one after the other, and what they say, as name_result does. 0, or a negative NAME_ERROR_*. */
int name_predict(const INPUT_TYPE *input, void *arena, name_ensemble *ensemble, int32_t *values, uint64_t *variances);
"""

DEFINITIONS = """\
int name_init(name_ensemble *ensemble)
{
    int32_t i;

    if (ensemble == 0) {
        return NAME_ERROR_NULL;
    }
    ensemble->members = 0;
    for (i = 0; i < NAME_VALUES; ++i) {
        ensemble->sum[i] = 0;
        ensemble->squares[i] = 0;
    }
    return 0;
}

int name_add(name_ensemble *ensemble, const INPUT_TYPE *input, void *arena)
{
    int32_t *values;
    int status;

    if (ensemble == 0 || arena == 0) {
        return NAME_ERROR_NULL;
    }
    if ((uintptr_t)arena % NAME_ARENA_ALIGN != 0) {
        return NAME_ERROR_ALIGN;
    }
    values = (int32_t *)arena + SCORES_AT; /* their place in it, which no map needs any more */
    status = name_observe(ensemble->members, input, arena, values, 0, 0);
    if (status < 0) {
        return status;
    }
    name_blrc_values_add(NAME_VALUES, values, ensemble->sum, ensemble->squares);
    ++ensemble->members;
    return 0;
}

int name_result(const name_ensemble *ensemble, int32_t *values, uint64_t *variances)
{
    int32_t i;

    if (ensemble == 0 || values == 0) {
        return NAME_ERROR_NULL;
    }
    if (ensemble->members == 0) {
        return NAME_ERROR_EMPTY;
    }
    if (ensemble->members > NAME_MEMBERS) {
        return NAME_ERROR_MEMBERS;
    }
    for (i = 0; i < NAME_VALUES; ++i) {
        values[i] = name_blrc_values_mean(ensemble->members, ensemble->sum[i]);
        if (variances != 0) {
            variances[i] = name_blrc_values_variance(ensemble->members, ensemble->sum[i], ensemble->squares[i]);
        }
    }
    return 0;
}

int name_predict(const INPUT_TYPE *input, void *arena, name_ensemble *ensemble, int32_t *values, uint64_t *variances)
{
    if (ensemble == 0 || values == 0) {
        return NAME_ERROR_NULL;
    }
    name_init(ensemble);
    while (ensemble->members < NAME_MEMBERS) {
        const int status = name_add(ensemble, input, arena);

        if (status < 0) {
            return status;
        }
    }
    return name_result(ensemble, values, variances);
}
"""

SELFTEST = """\
/* All members' answer to one input. */
static int name_vector_ensemble(int32_t vector, const INPUT_TYPE *input, void *arena)
{
    NAME_BLRC_TABLE(int32_t) const sums =
        NAME_BLRC_SKIP(int32_t, NAME_BLRC_FAR(name_vector_sums), vector * NAME_VALUES);
    NAME_BLRC_TABLE(uint32_t) const expected =
        NAME_BLRC_SKIP(uint32_t, NAME_BLRC_FAR(name_vector_answers), vector * (3 * NAME_VALUES));
    name_ensemble ensemble;
    int32_t values[NAME_VALUES];
    uint64_t variances[NAME_VALUES];
    int32_t i;
    const int status = name_predict(input, arena, &ensemble, values, variances);

    if (status < 0) {
        return status;
    }
    for (i = 0; i < NAME_VALUES; ++i) {
        if (ensemble.sum[i] != NAME_BLRC_READ(int32_t, sums, i) ||
            (uint32_t)values[i] != NAME_BLRC_READ(uint32_t, expected, 3 * i) ||
            (uint32_t)(variances[i] >> 32) != NAME_BLRC_READ(uint32_t, expected, 3 * i + 1) ||
            (uint32_t)variances[i] != NAME_BLRC_READ(uint32_t, expected, 3 * i + 2)) {
            return 1 + NAME_MEMBERS * NAME_OPS;
        }
    }
    return ensemble.members == NAME_MEMBERS ? 0 : 1 + NAME_MEMBERS * NAME_OPS;
}
"""
