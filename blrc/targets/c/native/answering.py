"""Hold the wrapper's C that asks the members of an ensemble about many samples (`host_wrapper`)."""

LABELS = """\
static int host_ask(int predict, uint32_t argument, host_work *work, const INPUT_TYPE *input, name_answer *answer)
{
    uint32_t k;
    int status;

    if (predict) {
        return name_predict(input, work->arena, &work->ensemble, argument, answer);
    }
    status = name_init(&work->ensemble);
    for (k = 0; k < (argument == 0 ? NAME_MEMBERS : argument) && status == 0; ++k) {
        status = name_add(&work->ensemble, input, work->arena);
        if (argument == 0 && GATED) {
            break;
        }
    }
    return status < 0 ? status : name_result(&work->ensemble, answer);
}

NAME_SHOWN int host_answers(const unsigned char *x, uint64_t count, int predict, uint32_t argument, host_work *work,
                            int64_t *log_p, int64_t *p, int64_t *p_squared, int64_t *label, int64_t *members,
                            int64_t *mean, int64_t *variance, unsigned char *settled);
NAME_SHOWN int host_answers(const unsigned char *x, uint64_t count, int predict, uint32_t argument, host_work *work,
                            int64_t *log_p, int64_t *p, int64_t *p_squared, int64_t *label, int64_t *members,
                            int64_t *mean, int64_t *variance, unsigned char *settled)
{
    uint64_t i;
    int32_t c;

    for (i = 0; i < count; ++i) {
        const INPUT_TYPE *const input = (const INPUT_TYPE *)host_pack(&host_input_map, x, work->x);
        name_answer answer[HOST_HEADS];
        const int status = host_ask(predict, argument, work, input, answer);
        const int done = status < 0 ? status : name_is_final(&work->ensemble);

        if (done < 0) {
            return done;
        }
        for (c = 0; c < HOST_HEADS; ++c) {
            *label++ = answer[c].label;
        }
        x += host_input_map.outside;
        if (log_p == 0) {
            continue;
        }
        for (c = 0; c < NAME_CLASSES; ++c) {
            *log_p++ = work->ensemble.log_p[c];
            *p++ = work->ensemble.p[c];
            *p_squared++ = (int64_t)work->ensemble.p_squared[c];
        }
        for (c = 0; c < HOST_HEADS; ++c) {
            *mean++ = answer[c].mean;
            *variance++ = answer[c].variance;
        }
        members[i] = answer[0].members;
        settled[i] = (unsigned char)done;
    }
    return 0;
}

"""
"""Ask for labels."""

VALUES = """\
static int host_ask(int predict, uint32_t argument, host_work *work, const INPUT_TYPE *input, int32_t *values,
                    uint64_t *variances)
{
    uint32_t k;
    int status;

    if (predict) {
        return name_predict(input, work->arena, &work->ensemble, values, variances);
    }
    status = name_init(&work->ensemble);
    for (k = 0; k < (argument == 0 ? NAME_MEMBERS : argument) && status == 0; ++k) {
        status = name_add(&work->ensemble, input, work->arena);
    }
    return status < 0 ? status : name_result(&work->ensemble, values, variances);
}

NAME_SHOWN int host_answers(const unsigned char *x, uint64_t count, int predict, uint32_t argument, host_work *work,
                            int64_t *log_p, int64_t *p, int64_t *p_squared, int64_t *label, int64_t *members,
                            int64_t *mean, int64_t *variance, unsigned char *settled);
NAME_SHOWN int host_answers(const unsigned char *x, uint64_t count, int predict, uint32_t argument, host_work *work,
                            int64_t *log_p, int64_t *p, int64_t *p_squared, int64_t *label, int64_t *members,
                            int64_t *mean, int64_t *variance, unsigned char *settled)
{
    int32_t values[NAME_CLASSES];
    uint64_t variances[NAME_CLASSES];
    uint64_t i;
    int32_t c;

    (void)p;
    (void)label;
    for (i = 0; i < count; ++i) {
        const INPUT_TYPE *const input = (const INPUT_TYPE *)host_pack(&host_input_map, x, work->x);
        const int status = host_ask(predict, argument, work, input, values, variances);

        if (status < 0) {
            return status;
        }
        for (c = 0; c < NAME_CLASSES; ++c) {
            *log_p++ = work->ensemble.sum[c];
            *p_squared++ = (int64_t)work->ensemble.squares[c];
            *mean++ = values[c];
            *variance++ = (int64_t)variances[c];
        }
        members[i] = work->ensemble.members;
        settled[i] = work->ensemble.members == NAME_MEMBERS;
        x += host_input_map.outside;
    }
    return 0;
}

"""
"""Ask for values."""
