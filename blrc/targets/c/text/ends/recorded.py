"""Write what the self-test compares of all members' answers: the recorded answers, and of labels the comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.head import Answer
from blrc.program.program import Program
from blrc.targets.c.text import text


def expected(program: Program, answer: Answer, table: Callable[[str, NDArray[Any]], str]) -> str:
    """Return the tables of what all members say together."""
    if program.values:
        halves = [answer.mean, answer.variance >> 32, answer.variance]
        moments = np.stack([half & 0xFFFFFFFF for half in halves], axis=-1).astype(np.uint32)
        return (
            text.comment("for each input the sums of all members' values")
            + table("sums", answer.log_p.astype(np.int32))
            + text.comment("and of each value the mean, and the high and the low half of the variance")
            + table("answers", moments)
        )
    used = np.broadcast_to(answer.members if not program.heads else answer.members[:, None], answer.label.shape)
    moments = np.stack([answer.label, used, answer.mean, answer.variance], axis=-1)
    return (
        text.comment("for each input what all members say: the sums of log2 p")
        + table("log_p", answer.log_p.astype(np.int32))
        + text.comment("and label, members, mean, variance" + (" of each head" if program.heads else ""))
        + table("answers", moments.astype(np.int32))
    )


LABELS = """\
/* All members' answer to one input. */
static int name_vector_ensemble(int32_t vector, const INPUT_TYPE *input, void *arena)
{
    NAME_BLRC_TABLE(int32_t) const log_p =
        NAME_BLRC_SKIP(int32_t, NAME_BLRC_FAR(name_vector_log_p), vector * NAME_CLASSES);ONE(
    NAME_BLRC_TABLE(int32_t) const expected = NAME_BLRC_SKIP(int32_t, NAME_BLRC_FAR(name_vector_answers), vector * 4);
)ONEHEADS(
    NAME_BLRC_TABLE(int32_t) const expected =
        NAME_BLRC_SKIP(int32_t, NAME_BLRC_FAR(name_vector_answers), vector * (4 * NAME_HEADS));
)HEADS    name_ensemble ensemble;
ONE(    name_answer answer = {-1, 0, 0, 0};
)ONEHEADS(    name_answer answer[NAME_HEADS];
)HEADS    int32_t i;
    int status = name_init(&ensemble);

    for (i = 0; i < NAME_MEMBERS && status == 0 GATED; ++i) {
        status = name_add(&ensemble, input, arena);
    }
    if (status != 0) {
        return status;
    }
    status = name_result(&ensemble, ONE(&answer)ONEHEADS(answer)HEADS);
    if (status < 0) {
        return status;
    }
    for (i = 0; i < NAME_CLASSES; ++i) {
        if (ensemble.log_p[i] != NAME_BLRC_READ(int32_t, log_p, i)) {
            return 1 + NAME_MEMBERS * NAME_OPS;
        }
    }
ONE(    if (answer.label != NAME_BLRC_READ(int32_t, expected, 0) ||
        answer.members != (uint32_t)NAME_BLRC_READ(int32_t, expected, 1) ||
        answer.mean != (uint32_t)NAME_BLRC_READ(int32_t, expected, 2) ||
        answer.variance != (uint32_t)NAME_BLRC_READ(int32_t, expected, 3) ||
        (answer.members == NAME_MEMBERS && name_is_final(&ensemble) != 1)) {
        return 1 + NAME_MEMBERS * NAME_OPS;
    }
)ONEHEADS(    for (i = 0; i < NAME_HEADS; ++i) {
        if (answer[i].label != NAME_BLRC_READ(int32_t, expected, 4 * i) ||
            answer[i].members != (uint32_t)NAME_BLRC_READ(int32_t, expected, 4 * i + 1) ||
            answer[i].mean != (uint32_t)NAME_BLRC_READ(int32_t, expected, 4 * i + 2) ||
            answer[i].variance != (uint32_t)NAME_BLRC_READ(int32_t, expected, 4 * i + 3)) {
            return 1 + NAME_MEMBERS * NAME_OPS;
        }
    }
    if (status != answer[0].label || (ensemble.members == NAME_MEMBERS && name_is_final(&ensemble) != 1)) {
        return 1 + NAME_MEMBERS * NAME_OPS;
    }
)HEADS    return 0;
}
"""
