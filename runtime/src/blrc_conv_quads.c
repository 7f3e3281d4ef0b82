/* Binary 3x3 convolution, bit-sliced as in blrc_conv_slices.c, in quads of words: four times as many pixels at once,
 * for CPUs with vectors (blrc_quad.h). A quad is four words of rows of the map, one below the other.
 *
 * The tables of all three kernel rows are made anew for every quad. Other CPUs compute the same, word by word. */
#define BLRC_STEP 4
#include "blrc_slices.h"
#define BLRC_ALL_QUADS
#include "blrc_quad.h"

#if !BLRC_QUADS
#error "exported for the Cortex-M55: needs a compiler with vectors of GNU C; export it without --cpu"
#endif

static BLRC_INLINE blrc_quad blrc_quads_add2(blrc_quad *low, blrc_quad a)
{
    const blrc_quad carry = *low & a;

    *low ^= a;
    return carry;
}

static BLRC_INLINE blrc_quad blrc_quads_more(blrc_quad more, blrc_quad plane, uint32_t bit)
{
    return bit != 0 ? more & plane : more | plane;
}

/* Where the sum of channel k of eight lies for the weights in w: a quad of ones, a quad of twos. */
static BLRC_INLINE const uint32_t *blrc_look(const uint32_t *table, uint32_t w, int32_t k)
{
    const uint32_t *of_channel = table + 64 * k;

    BLRC_OPAQUE(of_channel);
    return of_channel + 8 * ((w >> (4 * k)) & 7u);
}

/* Lanes of one output that pass, in four words. */
static BLRC_APART void blrc_passing(const blrc_slicing *in, BLRC_TABLE(uint32_t) weights, const uint32_t *table,
                                    const uint32_t *start, uint32_t limit, uint32_t *lanes)
{
    blrc_quad ones = blrc_quad_get(start), twos = blrc_quad_get(start + 4), fours = blrc_quad_get(start + 8);
    blrc_quad eights = blrc_quad_get(start + 12), sixteens = blrc_quad_get(start + 16);
    uint32_t upper[4 * (BLRC_PLANES - BLRC_LOW_PLANES)];
    const uint32_t *const end = table + 3 * 512 * in->eighths;
    const int32_t more_planes = in->planes - BLRC_LOW_PLANES;
    blrc_quad more;
    int32_t i;

    for (i = 0; i < 4 * more_planes; ++i) {
        upper[i] = start[4 * BLRC_LOW_PLANES + i];
    }
    for (; table != end; table += 512) {
        const uint32_t w = BLRC_NEXT(uint32_t, weights);
        const uint32_t *found = blrc_look(table, w, 0);
        blrc_quad one = blrc_quad_get(found), two = blrc_quad_get(found + 4), two1, four, four1, eight;

        found = blrc_look(table, w, 1);
        one = blrc_quad_add3(&ones, one, blrc_quad_get(found));
        four = blrc_quad_add3(&twos, two, blrc_quad_get(found + 4));
        found = blrc_look(table, w, 2);
        two1 = blrc_quad_get(found), two = blrc_quad_get(found + 4);
        found = blrc_look(table, w, 3);
        two1 = blrc_quad_add3(&ones, two1, blrc_quad_get(found));
        four1 = blrc_quad_add3(&twos, two, blrc_quad_get(found + 4));
        eight = blrc_quad_add3(&fours, four, four1);
        four = blrc_quad_add3(&twos, one, two1);

        found = blrc_look(table, w, 4);
        one = blrc_quad_get(found), two = blrc_quad_get(found + 4);
        found = blrc_look(table, w, 5);
        one = blrc_quad_add3(&ones, one, blrc_quad_get(found));
        four1 = blrc_quad_add3(&twos, two, blrc_quad_get(found + 4));
        four = blrc_quad_add3(&fours, four, four1);
        eight = blrc_quad_add3(&eights, eight, four);
        found = blrc_look(table, w, 6);
        two1 = blrc_quad_get(found), two = blrc_quad_get(found + 4);
        found = blrc_look(table, w, 7);
        two1 = blrc_quad_add3(&ones, two1, blrc_quad_get(found));
        four1 = blrc_quad_add3(&twos, two, blrc_quad_get(found + 4));
        four = blrc_quad_add3(&twos, one, two1);
        four = blrc_quad_add3(&fours, four, four1);
        four = blrc_quads_add2(&eights, four);
        eight = blrc_quad_add3(&sixteens, eight, four);
        for (i = 0; i < more_planes; ++i) {
            blrc_quad plane = blrc_quad_get(upper + 4 * i);

            eight = blrc_quads_add2(&plane, eight);
            blrc_quad_put(upper + 4 * i, plane);
        }
    }
    more = (limit & 1u) != 0 ? ones ^ ones : ones;
    more = blrc_quads_more(more, twos, limit & 2u);
    more = blrc_quads_more(more, fours, limit & 4u);
    more = blrc_quads_more(more, eights, limit & 8u);
    more = blrc_quads_more(more, sixteens, limit & 16u);
    for (i = 0; i < more_planes; ++i) {
        const blrc_quad plane = blrc_quad_get(upper + 4 * i);

        more = blrc_quads_more(more, plane, (limit >> (BLRC_LOW_PLANES + i)) & 1u);
    }
    more = ~more;
    blrc_quad_put(lanes, more);
}

/* The outputs of up to 32 channels, of the pixels in a word of lanes, whose first row before pooling is `first`; their
 * word of the map's first pixel is y. The lanes are transposed in place. */
static void blrc_put_word(const blrc_conv *op, const blrc_slicing *in, int32_t first, uint32_t *lanes, uint32_t *y)
{
    const int32_t words = blrc_words(op->out_channels), pool = op->pool.kernel_x, height = op->out_height * pool;
    int32_t r, c;

    blrc_transpose(lanes);
    for (r = 0; r < in->rows && first + r < height; r += pool) {
        uint32_t *to = y + (first + r) / pool * op->out_width * words;
        const uint32_t *lane = lanes + (r << in->log_pitch);

        for (c = op->out_width; c > 0; --c, to += words, lane += pool) {
            *to = *lane;
        }
    }
}

void blrc_conv_quads(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                     BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *scratch, uint32_t *y)
{
    const blrc_slicing in = blrc_slicing_of(op);
    const int32_t n = 9 * op->in_channels, pool = op->pool.kernel_x;
    uint32_t start[4 * BLRC_PLANES], found[4], lanes[4][32];
    int32_t top, c, i, j;

    for (top = 0; top < op->out_height * pool; top += 4 * in.rows) {
        BLRC_TABLE(uint32_t) w = weights;

        for (j = 0; j < 4; ++j) {
            for (i = 0; i < 3; ++i) {
                blrc_tabulate_rows(op, &in, x, top + j * in.rows + i - 1, scratch + 64 * op->in_channels * i + j);
            }
            blrc_lacking(op, &in, top + j * in.rows, start + j);
        }
        for (c = 0; c < blrc_words(op->out_channels) * 32; ++c) {
            found[0] = found[1] = found[2] = found[3] = 0;
            if (c < op->out_channels) {
                const int32_t room = n - BLRC_READ(blrc_bit_threshold, thresholds, c);

                if (room >= 0) {
                    blrc_passing(&in, w, scratch, start, (uint32_t)room / 2, found);
                }
                w = BLRC_SKIP(uint32_t, w, 3 * in.eighths);
            }
            for (j = 0; j < 4; ++j) {
                /* Pooling: into the upper left pixel of each square. */
                if (pool == 2) {
                    found[j] |= found[j] >> 1;
                    if (in.rows > 1) {
                        found[j] |= found[j] >> (32 / in.rows);
                    } else if (j % 2 == 0) {
                        found[j] |= found[j + 1] | found[j + 1] >> 1;
                    }
                }
                lanes[j][c % 32] = found[j];
            }
            for (j = 0; j < 4 && c % 32 == 31; ++j) {
                if (in.rows >= pool || j % 2 == 0) {
                    blrc_put_word(op, &in, top + j * in.rows, lanes[j], y + c / 32);
                }
            }
        }
    }
}
