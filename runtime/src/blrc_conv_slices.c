/* Binary 3x3 convolution, bit-sliced: the lanes of a word are up to 32 pixels of a map, and numbers are spread over
 * words, one for each of their bits.
 *
 * For every channel and kernel row the differences from all 8 sign patterns of the three taps (0 to 3, two words) are
 * tabulated for 32 pixels at once, out of the channel's bits and the same shifted by a pixel to either side. Every
 * output looks up the pattern of its weights and adds, in carry-save adders: nothing is ever counted. A bit-sliced
 * comparison gives the outputs of all lanes.
 *
 * A lane whose taps lie partly outside the map starts with half of the bits that it lacks: with n = 9 channels,
 *
 *   z >= t  <=>  2 pop <= real - t  <=>  pop + (n - real) / 2 <= (n - t) / 2, rounded down. */
#define BLRC_STEP 1
#include "blrc_slices.h"

static BLRC_INLINE uint32_t blrc_add2(uint32_t *low, uint32_t a)
{
    /* Sums stay below 2 to the number of planes, so that no carry reaches a plane that is not there: not for the
     * analyzer to know. NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
    const uint32_t carry = *low & a;

    *low ^= a;
    return carry;
}

/* `more`: lanes whose lower planes are more than the lower bits of a limit; now with one plane more. */
static BLRC_INLINE uint32_t blrc_more(uint32_t more, uint32_t plane, uint32_t bit)
{
    return bit != 0 ? more & plane : more | plane;
}

/* Where the sum of channel k of eight lies for the weights in w: ones, twos. */
static BLRC_INLINE const uint32_t *blrc_look(const uint32_t *table, uint32_t w, int32_t k)
{
    const uint32_t *found = table + 2 * ((w >> (4 * k)) & 7u);

    BLRC_OPAQUE(found);
    return found + 16 * k;
}

/* Lanes of one output that pass. The tables of the three kernel rows follow one another, the first is that of row
 * `turn`. */
static BLRC_APART uint32_t blrc_passing(const blrc_slicing *in, BLRC_TABLE(uint32_t) weights, const uint32_t *table,
                                        int32_t turn, const uint32_t *start, uint32_t limit)
{
    uint32_t ones = start[0], twos = start[1], fours = start[2], eights = start[3], sixteens = start[4];
    uint32_t upper[BLRC_PLANES - BLRC_LOW_PLANES], more;
    int32_t i, k;

    for (i = BLRC_LOW_PLANES; i < in->planes; ++i) {
        upper[i - BLRC_LOW_PLANES] = start[i];
    }
    for (k = 0; k < 3; ++k) {
        const uint32_t *const end = table + 128 * in->eighths;
        BLRC_TABLE(uint32_t) next = BLRC_SKIP(uint32_t, weights, turn * in->eighths);

        turn = turn == 2 ? 0 : turn + 1;
        for (; table != end; table += 128) {
            const uint32_t w = BLRC_NEXT(uint32_t, next);
            const uint32_t *found = blrc_look(table, w, 0);
            uint32_t one = found[0], two = found[1], two1, four, four1, eight, *plane;

            found = blrc_look(table, w, 1);
            one = blrc_add3(&ones, one, found[0]);
            four = blrc_add3(&twos, two, found[1]);
            found = blrc_look(table, w, 2);
            two1 = found[0], two = found[1];
            found = blrc_look(table, w, 3);
            two1 = blrc_add3(&ones, two1, found[0]);
            four1 = blrc_add3(&twos, two, found[1]);
            eight = blrc_add3(&fours, four, four1);
            four = blrc_add3(&twos, one, two1);

            found = blrc_look(table, w, 4);
            one = found[0], two = found[1];
            found = blrc_look(table, w, 5);
            one = blrc_add3(&ones, one, found[0]);
            four1 = blrc_add3(&twos, two, found[1]);
            four = blrc_add3(&fours, four, four1);
            eight = blrc_add3(&eights, eight, four);
            found = blrc_look(table, w, 6);
            two1 = found[0], two = found[1];
            found = blrc_look(table, w, 7);
            two1 = blrc_add3(&ones, two1, found[0]);
            four1 = blrc_add3(&twos, two, found[1]);
            four = blrc_add3(&twos, one, two1);
            four = blrc_add3(&fours, four, four1);
            four = blrc_add2(&eights, four);
            eight = blrc_add3(&sixteens, eight, four);
            for (plane = upper; eight != 0; ++plane) {
                eight = blrc_add2(plane, eight);
            }
        }
    }
    more = ones & ~(0u - (limit & 1u));
    more = blrc_more(more, twos, limit & 2u);
    more = blrc_more(more, fours, limit & 4u);
    more = blrc_more(more, eights, limit & 8u);
    more = blrc_more(more, sixteens, limit & 16u);
    for (i = BLRC_LOW_PLANES; i < in->planes; ++i) {
        more = blrc_more(more, upper[i - BLRC_LOW_PLANES], (limit >> i) & 1u);
    }
    return ~more;
}

/* OR the lanes of a row into one bit of the pixels from y on, `pool` lanes for each. */
static BLRC_INLINE void blrc_put_lanes(uint32_t lanes, int32_t pool, uint32_t bit, int32_t words, uint32_t *y)
{
    for (; lanes != 0; lanes >>= pool, y += words) {
        if (lanes & 1u) {
            *y |= bit;
        }
    }
}

void blrc_conv_slices(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                      BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *scratch, uint32_t *y)
{
    const blrc_slicing in = blrc_slicing_of(op);
    const int32_t words = blrc_words(op->out_channels), line = op->out_width * words;
    const int32_t table = 16 * op->in_channels, n = 9 * op->in_channels, pool = op->pool.kernel_x;
    const uint32_t columns = (0xFFFFFFFFu >> (32 - op->out_width * pool)) & (pool == 2 ? 0x55555555u : 0xFFFFFFFFu);
    uint32_t start[BLRC_PLANES];
    int32_t top, c, i, r;

    for (i = 0; i < op->out_height * line; ++i) {
        y[i] = 0;
    }
    for (top = 0; top < op->out_height * pool; top += in.rows) {
        const int32_t turn = (3 - top % 3) % 3;
        BLRC_TABLE(uint32_t) w = weights;

        /* The table of the map rows from s - 1 on lies in place s % 3; some are there from the round before. */
        for (i = top == 0 || in.rows > 2 ? 0 : 3 - in.rows; i < 3; ++i) {
            blrc_tabulate_rows(op, &in, x, top + i - 1, scratch + (top + i) % 3 * table);
        }
        blrc_lacking(op, &in, top, start);
        for (c = 0; c < op->out_channels; ++c, w = BLRC_SKIP(uint32_t, w, 3 * in.eighths)) {
            const int32_t room = n - BLRC_READ(blrc_bit_threshold, thresholds, c);
            uint32_t *to = y + top / pool * line + c / 32;
            uint32_t lanes = room < 0 ? 0 : blrc_passing(&in, w, scratch, turn, start, (uint32_t)room / 2);

            if (pool == 2) {
                lanes |= lanes >> 1;
                lanes |= in.rows > 1 ? lanes >> (32 / in.rows) : 0;
            }
            for (r = 0; r == 0 || r + pool <= in.rows; r += pool, to += line) {
                if (top + r < op->out_height * pool) {
                    blrc_put_lanes((lanes >> (r << in.log_pitch)) & columns, pool, (uint32_t)1 << (c & 31), words, to);
                }
            }
        }
    }
}
