"""Hold the driver's C that asks the members of an ensemble, and tells what they said (`answers.record`)."""

LABELS = """
#define DRIVER_SETTLES
static name_answer driver_got[DRIVER_HEADS];

/* So many members (0: all, or the first alone where it is gated), or as many as the model wants for this confidence.
 * 1: the answer is settled; 0; or an error. */
static int driver_ask(int predict, uint32_t argument, const void *x)
{
    const INPUT_TYPE *const input = (const INPUT_TYPE *)x;
    uint32_t k;
    int status;

    if (predict) {
        status = name_predict(input, driver_arena, &driver_ensemble, argument, driver_got);
    } else {
        status = name_init(&driver_ensemble);
        for (k = 0; k < (argument == 0 ? DRIVER_MEMBERS : argument) && status == 0; ++k) {
            status = name_add(&driver_ensemble, input, driver_arena);
            if (argument == 0 && GATED) {
                break;
            }
        }
        if (status == 0) {
            status = name_result(&driver_ensemble, driver_got);
        }
    }
    return status < 0 ? status : name_is_final(&driver_ensemble);
}

/* What driver_ask found: the sums, the answer, and whether it is settled (answers.record). */
static void driver_tell(void (*write)(const void *data, uint32_t bytes), int32_t settled)
{
    int32_t head;

    write(driver_ensemble.log_p, sizeof driver_ensemble.log_p);
    write(driver_ensemble.p, sizeof driver_ensemble.p);
    write(driver_ensemble.p_squared, sizeof driver_ensemble.p_squared);
    for (head = 0; head < DRIVER_HEADS; ++head) {
        write(&driver_got[head].label, sizeof driver_got[head].label);
    }
    write(&driver_got[0].members, sizeof driver_got[0].members);
    for (head = 0; head < DRIVER_HEADS; ++head) {
        write(&driver_got[head].mean, sizeof driver_got[head].mean);
    }
    for (head = 0; head < DRIVER_HEADS; ++head) {
        write(&driver_got[head].variance, sizeof driver_got[head].variance);
    }
    write(&settled, sizeof settled);
}

/* Whether the members and sums of log p that lie in driver_ensemble have settled the label. */
static int32_t driver_settled(void)
{
    return name_is_final(&driver_ensemble);
}
"""
"""Ask for labels."""

VALUES = """
static int32_t driver_values[NAME_CLASSES];
static uint64_t driver_variances[NAME_CLASSES];

/* So many members, or all of them: 0, or where the model is to predict. 1: all were asked; 0; or an error. */
static int driver_ask(int predict, uint32_t argument, const void *x)
{
    const INPUT_TYPE *const input = (const INPUT_TYPE *)x;
    uint32_t k;
    int status;

    if (predict) {
        status = name_predict(input, driver_arena, &driver_ensemble, driver_values, driver_variances);
    } else {
        status = name_init(&driver_ensemble);
        for (k = 0; k < (argument == 0 ? DRIVER_MEMBERS : argument) && status == 0; ++k) {
            status = name_add(&driver_ensemble, input, driver_arena);
        }
        if (status == 0) {
            status = name_result(&driver_ensemble, driver_values, driver_variances);
        }
    }
    return status < 0 ? status : driver_ensemble.members == DRIVER_MEMBERS;
}

/* What driver_ask found: the sums, the answer, and whether all members were asked (answers.record). */
static void driver_tell(void (*write)(const void *data, uint32_t bytes), int32_t settled)
{
    write(driver_ensemble.sum, sizeof driver_ensemble.sum);
    write(driver_ensemble.squares, sizeof driver_ensemble.squares);
    write(&driver_ensemble.members, sizeof driver_ensemble.members);
    write(driver_values, sizeof driver_values);
    write(driver_variances, sizeof driver_variances);
    write(&settled, sizeof settled);
}
"""
"""Ask for values."""
