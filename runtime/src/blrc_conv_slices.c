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
#include "blrc_carry.h"
#include "blrc_window.h"

#define BLRC_PLANES 14 /* bits of n, which is below 2^14 */
#define BLRC_LOW_PLANES 5 /* that are kept in registers */

typedef struct blrc_lanes {
    int32_t log_pitch, rows; /* log2 of the lanes of a map row; map rows in a word */
    int32_t planes;
    int32_t eighths; /* words of weights for each kernel row */
    uint32_t columns[3]; /* lanes of a row whose taps of each kernel column lie inside the map */
} blrc_lanes;

/* Bit j of word i becomes bit i of word j: squares of half the size change places, again and again. */
static void blrc_transpose(uint32_t *words)
{
    uint32_t mask = 0x0000FFFFu;
    int32_t half, i;

    for (half = 16; half != 0; half >>= 1, mask ^= mask << half) {
        for (i = 0; i < 32; i = ((i | half) + 1) & ~half) {
            const uint32_t v = ((words[i] >> half) ^ words[i + half]) & mask;

            words[i] ^= v << half;
            words[i + half] ^= v;
        }
    }
}

/* Where the sum of two taps is a + 2 both: those of the patterns whose third weight is -1, and four further on +1. */
static BLRC_INLINE void blrc_third(uint32_t a, uint32_t both, uint32_t third, uint32_t real, uint32_t *to)
{
    to[0] = a ^ third;
    to[1] = both | (a & third);
    to[8] = a ^ third ^ real;
    to[9] = both | (a & ~third & real);
}

/* The differences of a channel's bits x from the 8 patterns: bit k of a pattern is the weight of kernel column k. Two
 * words each, ones and twos. */
static BLRC_APART void blrc_patterns(uint32_t x, const uint32_t *real, uint32_t *to)
{
    const uint32_t right = (x >> 1) & real[2], other = x ^ real[1];
    uint32_t left = (x << 1) & real[0];
    int32_t i;

    for (i = 0; i < 2; ++i, left ^= real[0], to += 2) {
        blrc_third(left ^ x, left & x, right, real[2], to);
        blrc_third(left ^ other, left & other, right, real[2], to + 4);
    }
}

/* Tabulate the map rows from `top` on, as many as a word has. */
static void blrc_tabulate_rows(const blrc_conv *op, const blrc_lanes *in, const uint32_t *x, int32_t top, uint32_t *to)
{
    const int32_t words = blrc_words(op->in_channels);
    uint32_t lanes[32], real[3] = {0, 0, 0};
    int32_t r, i, c;

    for (r = 0; r < in->rows; ++r) {
        if (top + r >= 0 && top + r < op->in_height) {
            for (i = 0; i < 3; ++i) {
                real[i] |= in->columns[i] << (r << in->log_pitch);
            }
        }
    }
    for (i = 0; i < words; ++i) {
        for (c = 0; c < 32; ++c) {
            lanes[c] = 0;
        }
        for (r = 0; r < in->rows; ++r) {
            if (top + r >= 0 && top + r < op->in_height) {
                const uint32_t *from = x + (top + r) * op->in_width * words + i;
                uint32_t *lane = lanes + (r << in->log_pitch);

                for (c = op->in_width; c > 0; --c, from += words) {
                    *lane++ = *from;
                }
            }
        }
        blrc_transpose(lanes);
        for (c = 0; c < 32 && 32 * i + c < op->in_channels; ++c, to += 16) {
            blrc_patterns(lanes[c], real, to);
        }
    }
}

/* Half of the bits that each lane lacks, in planes. */
static void blrc_lacking(const blrc_conv *op, const blrc_lanes *in, int32_t top, uint32_t *planes)
{
    const int32_t pitch = 1 << in->log_pitch;
    int32_t lane, i;

    for (i = 0; i < in->planes; ++i) {
        planes[i] = 0;
    }
    for (lane = 0; lane < 32; ++lane) {
        const int32_t row = top + (lane >> in->log_pitch), column = lane & (pitch - 1);
        const int32_t down = 3 - (row == 0) - (row == op->in_height - 1);
        const int32_t across = 3 - (column == 0) - (column == op->in_width - 1);
        uint32_t half = (uint32_t)((9 - down * across) * op->in_channels / 2);

        for (i = 0; half != 0; ++i, half >>= 1) {
            planes[i] |= (half & 1u) << lane;
        }
    }
}

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

/* Hides where a pointer comes from, so that one sum is computed and not two. */
#if defined(__GNUC__)
#define BLRC_OPAQUE(pointer) __asm__("" : "+r"(pointer))
#else
#define BLRC_OPAQUE(pointer) ((void)0)
#endif

/* Where the sum of channel k of eight lies for the weights in w: ones, twos. */
static BLRC_INLINE const uint32_t *blrc_look(const uint32_t *table, uint32_t w, int32_t k)
{
    const uint32_t *found = table + 2 * ((w >> (4 * k)) & 7u);

    BLRC_OPAQUE(found);
    return found + 16 * k;
}

/* Lanes of one output that pass. The tables of the three kernel rows follow one another, the first is that of row
 * `turn`. */
static BLRC_APART uint32_t blrc_passing(const blrc_lanes *in, BLRC_TABLE(uint32_t) weights, const uint32_t *table,
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

static blrc_lanes blrc_lanes_of(const blrc_conv *op)
{
    const uint32_t all = 0xFFFFFFFFu >> (32 - op->in_width);
    blrc_lanes in = {3, 0, BLRC_LOW_PLANES, op->in_channels / 8, {0, 0, 0}};

    while (op->in_width > 1 << in.log_pitch) {
        ++in.log_pitch;
    }
    in.rows = 32 >> in.log_pitch;
    while ((9 * op->in_channels) >> in.planes != 0) {
        ++in.planes;
    }
    in.columns[0] = all & ~(uint32_t)1;
    in.columns[1] = all;
    in.columns[2] = all >> 1;
    return in;
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
    const blrc_lanes in = blrc_lanes_of(op);
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
