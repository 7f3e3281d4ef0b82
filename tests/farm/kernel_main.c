/* Kernels one by one, under sanitizers, without an export: reads cases from standard input, writes what each gives.
 *
 * Every table, input, output and scratch buffer has exactly the size that was said, alone on the heap. A convolution
 * that can run in row strips does so as well, each strip from a copy of just the rows that it may read, into a row of
 * its own; then both results have to be equal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blrc.h"
#include "blrc_tier.h"

#define MOST_TABLES 6

enum {
    KERNEL_CODES, KERNEL_PAIRS, KERNEL_COLUMNS, KERNEL_EIGHTS, KERNEL_DOTS, KERNEL_ROWS, KERNEL_GATHER, KERNEL_PACKED,
    KERNEL_TAPS, KERNEL_SLICES, KERNEL_QUADS, KERNEL_TILES, KERNEL_LANES, KERNEL_DENSE, KERNEL_DENSE_TILES,
    KERNEL_DENSE_COLUMNS, KERNEL_DENSE_QUADS, KERNEL_BINARIZE, KERNEL_FLATTEN, KERNEL_POOL, KERNEL_SCORES,
    KERNEL_SCORES_DOTS, KERNEL_PLANES, KERNEL_BYTES, KERNEL_POOL_LEVELS, KERNEL_SCORES_LEVELS, KERNEL_SCORES_SIGNS,
    KERNEL_TERNARY, KERNEL_TERNARY_PLANES, KERNEL_TERNARY_BYTES, KERNEL_SCORES_TERNARY,
    KERNEL_TERNARY_PAIRS, KERNEL_POOL_SUMS,
    KERNEL_WHOLE,
    KERNEL_WHOLE_DEPTHWISE
};

typedef struct test_case {
    int32_t kernel, tier, samples, x_bytes, x_row, y_bytes, scratch_bytes, by_rows;
    int32_t numbers[4];
    blrc_conv op;
    blrc_pool pool;
    int32_t sizes[MOST_TABLES];
} test_case;

static int32_t test_tier;
static void *tables[MOST_TABLES];

/* Instead of that of the CPU. */
int32_t blrc_tier(void)
{
    return test_tier;
}

static void get(void *to, size_t bytes)
{
    if (fread(to, 1, bytes, stdin) != bytes) {
        fprintf(stderr, "a case is cut short\n");
        exit(2);
    }
}

static void *exact(size_t bytes)
{
    void *const found = malloc(bytes);

    if (found == 0) {
        exit(2);
    }
    memset(found, 0xA5, bytes);
    return found;
}

#define T(type, i) ((const type *)tables[i])

static void call(const test_case *c, const blrc_conv *op, const void *x, uint32_t *scratch, void *to)
{
    const uint32_t *const bits = (const uint32_t *)x;
    const int32_t *const n = c->numbers;
    uint32_t *const y = (uint32_t *)to;

    switch (c->kernel) {
    case KERNEL_CODES:
        blrc_conv_codes(op, x, T(int8_t, 0), n[0], T(uint32_t, 1), T(blrc_code_threshold, 2), y);
        break;
    case KERNEL_PAIRS:
        blrc_conv_pairs(op, x, T(int8_t, 0), n[0], T(uint32_t, 1), T(uint32_t, 2), y);
        break;
    case KERNEL_COLUMNS:
        blrc_conv_columns(op, x, T(int8_t, 0), n[0], T(uint32_t, 1), T(uint32_t, 2), y);
        break;
    case KERNEL_EIGHTS:
        blrc_conv_eights(op, x, T(int8_t, 0), n[0], T(uint32_t, 1), T(int16_t, 2), scratch, y);
        break;
    case KERNEL_DOTS:
        blrc_conv_dots(op, x, T(int8_t, 0), n[0], T(int32_t, 1), n[1], T(int8_t, 2), T(int32_t, 3), scratch, y);
        break;
    case KERNEL_ROWS:
        blrc_conv_rows(op, bits, T(uint32_t, 0), T(blrc_bit_threshold, 1), y);
        break;
    case KERNEL_GATHER:
        blrc_conv_gather(op, bits, T(uint32_t, 0), T(blrc_bit_threshold, 1), y);
        break;
    case KERNEL_PACKED:
        blrc_conv_packed(op, bits, T(uint32_t, 0), T(blrc_bit_threshold, 1), y);
        break;
    case KERNEL_TAPS:
        blrc_conv_taps(op, bits, T(uint32_t, 0), T(blrc_bit_threshold, 1), y);
        break;
    case KERNEL_SLICES:
        blrc_conv_slices(op, bits, T(uint16_t, 0), T(uint16_t, 1), scratch, y);
        break;
    case KERNEL_QUADS:
        blrc_conv_quads(op, bits, T(uint16_t, 0), T(uint16_t, 1), scratch, y);
        break;
    case KERNEL_TILES:
        blrc_conv_tiles(op, bits, T(uint32_t, 0), T(uint8_t, 1), T(int32_t, 2), T(int32_t, 3), y);
        break;
    case KERNEL_LANES:
        blrc_conv_lanes(op, bits, T(uint32_t, 0), T(int32_t, 1), T(int32_t, 2), T(uint16_t, 3), T(uint16_t, 4), scratch,
                        y);
        break;
    case KERNEL_DENSE:
        blrc_dense(n[0], n[1], n[2], bits, T(uint32_t, 0), T(blrc_bit_threshold, 1), y);
        break;
    case KERNEL_DENSE_TILES:
        blrc_dense_tiles(n[0], n[1], bits, T(uint32_t, 0), T(int32_t, 1), y);
        break;
    case KERNEL_DENSE_COLUMNS:
        blrc_dense_columns(n[0], n[1], n[2], bits, T(uint32_t, 0), T(uint32_t, 1), scratch, y);
        break;
    case KERNEL_DENSE_QUADS:
        blrc_dense_quads(n[0], n[1], n[2], bits, T(uint32_t, 0), T(uint32_t, 1), scratch, y);
        break;
    case KERNEL_BINARIZE:
        blrc_binarize(n[0], n[1], (const uint8_t *)x, T(int16_t, 0), n[2], y);
        break;
    case KERNEL_FLATTEN:
        blrc_flatten(n[0], n[1], bits, y);
        break;
    case KERNEL_POOL:
        blrc_pool_or(&c->pool, bits, y);
        break;
    case KERNEL_SCORES:
        blrc_scores_int8(n[0], n[1], n[2], bits, T(int8_t, 0), T(int32_t, 1), (int32_t *)to);
        break;
    case KERNEL_SCORES_DOTS:
        blrc_scores_dots(n[0], n[1], bits, T(int8_t, 0), T(int32_t, 1), (int32_t *)to);
        break;
    case KERNEL_PLANES:
        blrc_conv_planes(op, n[0], n[1], bits, T(uint32_t, 0), T(blrc_level_limit, 1), T(int32_t, 2), scratch, to);
        break;
    case KERNEL_BYTES:
        blrc_conv_bytes(op, n[2], n[0], x, T(int8_t, 0), n[1], T(uint32_t, 1), T(blrc_level_limit, 2), T(int32_t, 3), scratch,
                        to);
        break;
    case KERNEL_POOL_LEVELS:
        blrc_pool_levels(&c->pool, n[0], x, to);
        break;
    case KERNEL_SCORES_LEVELS:
        blrc_scores_levels(n[0], n[1], n[2], n[3], x, T(int8_t, 0), T(int32_t, 1), (int32_t *)to);
        break;
    case KERNEL_SCORES_SIGNS:
        blrc_scores_signs(n[0], n[1], n[2], n[3], x, T(uint32_t, 0), T(int32_t, 1), T(int32_t, 2), (int32_t *)to);
        break;
    case KERNEL_TERNARY:
        blrc_conv_ternary(op, bits, T(uint32_t, 0), T(blrc_level_limit, 1), scratch, y);
        break;
    case KERNEL_TERNARY_PLANES:
        blrc_conv_ternary_planes(op, n[0], n[1], bits, T(uint32_t, 0), T(blrc_level_limit, 1), T(int32_t, 2), scratch,
                                 to);
        break;
    case KERNEL_TERNARY_PAIRS:
        blrc_conv_ternary_pairs(op, x, T(int8_t, 0), n[0], T(uint32_t, 1), T(uint32_t, 2), y);
        break;
    case KERNEL_TERNARY_BYTES:
        blrc_conv_ternary_bytes(op, n[0], x, T(int8_t, 0), n[1], T(uint32_t, 1), T(blrc_level_limit, 2), T(int32_t, 3),
                                scratch, to);
        break;
    case KERNEL_SCORES_TERNARY:
        blrc_scores_ternary(n[0], n[1], n[2], n[3], x, T(uint32_t, 0), T(int32_t, 1), T(int32_t, 2), (int32_t *)to);
        break;
    case KERNEL_POOL_SUMS:
        blrc_pool_sums(&c->pool, n[0], n[1], x, to);
        break;
    case KERNEL_WHOLE:
        blrc_conv_whole(op, n[0], n[1], x, T(int8_t, 0), n[2], T(int8_t, 1), T(blrc_level_limit, 2), T(int32_t, 3), scratch,
                        to);
        break;
    case KERNEL_WHOLE_DEPTHWISE:
        blrc_conv_whole_depthwise(op, n[0], n[1], x, T(int8_t, 0), n[2], T(int8_t, 1), T(blrc_level_limit, 2),
                                  T(int32_t, 3), scratch, to);
        break;
    default:
        exit(2);
    }
}

/* Row by row, as the generated code runs it. */
static void call_by_rows(const test_case *c, const uint8_t *x, uint32_t *scratch, uint32_t *y)
{
    blrc_strip strip = {&c->op, y, c->op.out_height, 0, 0};
    const size_t row = (size_t)c->y_bytes / (size_t)c->op.out_height;
    const void *from;
    blrc_conv part;
    uint32_t *to;

    while (blrc_strips_next(&strip, 1, x, c->x_row, &part, &from, &to) >= 0) {
        const size_t bytes = (size_t)(part.in_height * c->x_row);
        uint8_t *const rows = (uint8_t *)exact(bytes);
        uint32_t *const one = (uint32_t *)exact(row);

        memcpy(rows, from, bytes);
        call(c, &part, rows, scratch, one);
        memcpy(to, one, row);
        free(rows);
        free(one);
    }
}

int main(void)
{
    static test_case c;
    int32_t i;

    while (fread(&c, 1, sizeof c, stdin) == sizeof c) {
        test_tier = c.tier;
        for (i = 0; i < MOST_TABLES; ++i) {
            tables[i] = 0;
            if (c.sizes[i] > 0) {
                tables[i] = exact((size_t)c.sizes[i]);
                get(tables[i], (size_t)c.sizes[i]);
            }
        }
        for (i = 0; i < c.samples; ++i) {
            uint8_t *const x = (uint8_t *)exact((size_t)c.x_bytes);
            uint8_t *const y = (uint8_t *)exact((size_t)c.y_bytes), *const again = (uint8_t *)exact((size_t)c.y_bytes);
            uint32_t *const scratch = (uint32_t *)exact((size_t)c.scratch_bytes);

            get(x, (size_t)c.x_bytes);
            call(&c, &c.op, x, scratch, y);
            fwrite(y, 1, (size_t)c.y_bytes, stdout);
            if (c.by_rows) {
                call_by_rows(&c, x, scratch, (uint32_t *)(void *)again);
                fwrite(again, 1, (size_t)c.y_bytes, stdout);
            }
            free(x);
            free(y);
            free(again);
            free(scratch);
        }
        fflush(stdout);
        for (i = 0; i < MOST_TABLES; ++i) {
            free(tables[i]);
        }
    }
    return 0;
}
