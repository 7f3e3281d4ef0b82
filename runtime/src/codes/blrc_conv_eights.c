/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution of 8-bit codes with +-1 weights, for first layers whose sums are small: eight pixels of a row at once, in
 * the 16-bit lanes of a vector, for CPUs that have them (blrc_quad.h).
 *
 * As in conv_pairs the 16 sums of every four codes are tabulated once and looked up by nibbles of weights. As many rows
 * of codes as the kernel has are kept, with the zeros beside them. Other CPUs compute the same, lane by lane. */
#define BLRC_ALL_QUADS
#include "blrc_quad.h"
#include "blrc_window.h"

#if !BLRC_VECTOR && !defined(__GNUC__)
#error "exported for the Cortex-M55: needs a compiler with vectors of GNU C; export it without --cpu"
#endif

#define BLRC_SUMS 64 /* words of a table: 16 sums of eight lanes */

#if BLRC_VECTOR && defined(__ARM_FEATURE_MVE)

typedef int16x8_t blrc_sums8;
typedef uint16x8_t blrc_bits8;

static BLRC_INLINE blrc_bits8 blrc_bits8_of(uint16_t v)
{
    return vdupq_n_u16(v);
}

static BLRC_INLINE blrc_sums8 blrc_codes8(const int8_t *from, int32_t step)
{
    return step == 1 ? vldrbq_s16(from)
                     : vldrbq_gather_offset_s16(from, vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)step));
}

static BLRC_INLINE blrc_sums8 blrc_sums8_get(const uint32_t *from)
{
    return vreinterpretq_s16_u32(vld1q_u32(from));
}

static BLRC_INLINE void blrc_sums8_put(uint32_t *to, blrc_sums8 v)
{
    vst1q_u32(to, vreinterpretq_u32_s16(v));
}

/* Half of `lower`, and above it a bit that says whether the sum is below the threshold: never from 32768 away. */
static BLRC_INLINE blrc_bits8 blrc_below(blrc_bits8 lower, blrc_sums8 sum, int16_t threshold)
{
    return vsriq_n_u16(vreinterpretq_u16_s16(vsubq_n_s16(sum, threshold)), lower, 1);
}

/* Words of the even lanes and of the odd ones. */
static BLRC_INLINE void blrc_words8(blrc_bits8 low, blrc_bits8 high, uint32_t *even, uint32_t *odd)
{
    vst1q_u32(even, vorrq_u32(vmovlbq_u16(low), vshllbq_n_u16(high, 16)));
    vst1q_u32(odd, vorrq_u32(vmovltq_u16(low), vshlltq_n_u16(high, 16)));
}

#else

typedef int16_t blrc_sums8 __attribute__((vector_size(16)));
typedef uint16_t blrc_bits8 __attribute__((vector_size(16)));

static BLRC_INLINE blrc_bits8 blrc_bits8_of(uint16_t v)
{
    const blrc_bits8 all = {v, v, v, v, v, v, v, v};

    return all;
}

static BLRC_INLINE blrc_sums8 blrc_codes8(const int8_t *from, int32_t step)
{
    const blrc_sums8 codes = {from[0],        from[step],     from[2 * step], from[3 * step],
                              from[4 * step], from[5 * step], from[6 * step], from[7 * step]};

    return codes;
}

static BLRC_INLINE blrc_sums8 blrc_sums8_get(const uint32_t *from)
{
    blrc_sums8 v;

    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

static BLRC_INLINE void blrc_sums8_put(uint32_t *to, blrc_sums8 v)
{
    __builtin_memcpy(to, &v, sizeof v);
}

static BLRC_INLINE blrc_bits8 blrc_below(blrc_bits8 lower, blrc_sums8 sum, int16_t threshold)
{
    const blrc_bits8 sign = blrc_bits8_of(0x8000u);

    return (((blrc_bits8)sum - blrc_bits8_of((uint16_t)threshold)) & sign) | lower >> 1;
}

static BLRC_INLINE void blrc_words8(blrc_bits8 low, blrc_bits8 high, uint32_t *even, uint32_t *odd)
{
    int32_t i;

    for (i = 0; i < 4; ++i) {
        even[i] = low[2 * i] | (uint32_t)high[2 * i] << 16;
        odd[i] = low[2 * i + 1] | (uint32_t)high[2 * i + 1] << 16;
    }
}

#endif

/* The codes in the map, the rows of it that are kept, and the tables of the eight pixels at work. */
typedef struct blrc_eights {
    const void *x;
    BLRC_TABLE(int8_t) table; /* null where x holds codes */
    int32_t row;              /* elements of the table for each channel; 0 where all channels share it */
    int32_t pitch;            /* codes of a row */
    int32_t nibbles;
    int8_t *rows; /* row y in place (y + pad_y) % kernel_y */
    uint32_t *sums;
} blrc_eights;

static void blrc_fill_row(const blrc_conv *op, const blrc_eights *in, int32_t y, int8_t *to)
{
    const int32_t channels = op->in_channels, before = op->window.pad_x * channels;
    int32_t count = op->in_width * channels, at = y * count, i;

    for (i = 0; i < in->pitch; ++i) {
        to[i] = 0;
    }
    if (y < 0 || y >= op->in_height || before >= in->pitch) {
        return;
    }
    if (count > in->pitch - before) {
        count = in->pitch - before;
    }
    to += before;
    if (in->table == 0) {
        for (i = 0; i < count; ++i) {
            to[i] = ((const int8_t *)in->x)[at + i];
        }
    } else {
        const uint8_t *from = (const uint8_t *)in->x + at;
        int32_t c = 0, end = in->row * channels;

        for (i = 0; i < count; ++i) {
            to[i] = BLRC_READ(int8_t, in->table, c + from[i]);
            c += in->row;
            c = c == end ? 0 : c;
        }
    }
}

static BLRC_INLINE void blrc_four_sums8(uint32_t *to, blrc_sums8 high, blrc_sums8 both, blrc_sums8 other)
{
    blrc_sums8_put(to, high - both);
    blrc_sums8_put(to + 4, high + other);
    blrc_sums8_put(to + 8, high - other);
    blrc_sums8_put(to + 12, high + both);
}

/* Tables of the windows of eight pixels, the first of which is in a column of map row `top`. */
static void blrc_tabulate_eights(const blrc_conv *op, const blrc_eights *in, int32_t my, int32_t mx)
{
    const int32_t step = op->window.stride_x * op->in_channels, line = op->window.kernel_x * op->in_channels;
    const int32_t kernel = op->window.kernel_y;
    int32_t place = my * op->window.stride_y % kernel, left = kernel, codes = line, n, k;
    const int8_t *at = in->rows + place * in->pitch + mx * step;
    uint32_t *to = in->sums;

    for (n = 0; n < in->nibbles; ++n, to += BLRC_SUMS) {
        const blrc_sums8 none = {0, 0, 0, 0, 0, 0, 0, 0};
        blrc_sums8 a[4], both, other;

        for (k = 0; k < 4; ++k) {
            if (left == 0) {
                a[k] = none;
                continue;
            }
            a[k] = blrc_codes8(at++, step);
            if (--codes == 0) {
                --left;
                codes = line;
                place = place + 1 == kernel ? 0 : place + 1;
                at = in->rows + place * in->pitch + mx * step;
            }
        }
        both = a[0] + a[1], other = a[0] - a[1];
        a[0] = a[2] + a[3], a[1] = a[2] - a[3];
        blrc_four_sums8(to, -a[0], both, other);
        blrc_four_sums8(to + 16, a[1], both, other);
        blrc_four_sums8(to + 32, -a[1], both, other);
        blrc_four_sums8(to + 48, a[0], both, other);
    }
}

static BLRC_INLINE blrc_sums8 blrc_sums8_of(const uint32_t *sums, uint32_t w)
{
    return blrc_sums8_get(sums + 4 * (w & 15u));
}

/* A sixteenth of `lower`, and above it the bits of four channels that are below their thresholds. Their nibbles lie
 * `shift` bits up in the words of weights. */
static BLRC_INLINE blrc_bits8 blrc_four_channels(BLRC_TABLE(uint32_t) weights, int32_t shift, const blrc_eights *in,
                                                 BLRC_TABLE(int16_t) thresholds, blrc_bits8 lower)
{
    const uint32_t *sums = in->sums, *const end = sums + BLRC_SUMS * in->nibbles;
    uint32_t w = BLRC_NEXT(uint32_t, weights) >> shift;
    blrc_sums8 z0 = blrc_sums8_of(sums, w), z1 = blrc_sums8_of(sums, w >> 4);
    blrc_sums8 z2 = blrc_sums8_of(sums, w >> 8), z3 = blrc_sums8_of(sums, w >> 12);

    for (sums += BLRC_SUMS; sums != end; sums += BLRC_SUMS) {
        w = BLRC_NEXT(uint32_t, weights) >> shift;
        z0 += blrc_sums8_of(sums, w);
        z1 += blrc_sums8_of(sums, w >> 4);
        z2 += blrc_sums8_of(sums, w >> 8);
        z3 += blrc_sums8_of(sums, w >> 12);
    }
    lower = blrc_below(lower, z0, BLRC_READ(int16_t, thresholds, 0));
    lower = blrc_below(lower, z1, BLRC_READ(int16_t, thresholds, 1));
    lower = blrc_below(lower, z2, BLRC_READ(int16_t, thresholds, 2));
    return blrc_below(lower, z3, BLRC_READ(int16_t, thresholds, 3));
}

/* Bits of 16 channels from c on, as many as there are. */
static BLRC_APART blrc_bits8 blrc_sixteen(const blrc_conv *op, const blrc_eights *in, int32_t c,
                                          BLRC_TABLE(uint32_t) weights, BLRC_TABLE(int16_t) thresholds)
{
    const blrc_bits8 none = blrc_bits8_of(0xFFFFu);
    blrc_bits8 lower = none;
    int32_t i;

    for (i = 0; i < 16 && c + i < op->out_channels; i += 8) {
        BLRC_TABLE(uint32_t) w = BLRC_SKIP(uint32_t, weights, (c + i) / 8 * in->nibbles);
        BLRC_TABLE(int16_t) t = BLRC_SKIP(int16_t, thresholds, c + i);

        lower = blrc_four_channels(w, 0, in, t, lower);
        lower = blrc_four_channels(w, 16, in, BLRC_SKIP(int16_t, t, 4), lower);
    }
    return ~(i == 8 ? lower >> 8 | none << 8 : lower);
}

/* Outputs of eight pixels of map row my, from mx on. */
static void blrc_eight_pixels(const blrc_conv *op, const blrc_eights *in, int32_t my, int32_t mx,
                              BLRC_TABLE(uint32_t) weights, BLRC_TABLE(int16_t) thresholds, uint32_t *y)
{
    const int32_t words = blrc_words(op->out_channels), pool = op->pool.kernel_x;
    int32_t left = op->out_width - mx / pool, c, i;
    uint32_t even[4], odd[4];

    y += (my / pool * op->out_width + mx / pool) * words;
    blrc_tabulate_eights(op, in, my, mx);
    for (c = 0; c < op->out_channels; c += 32, ++y) {
        const blrc_bits8 low = blrc_sixteen(op, in, c, weights, thresholds);

        blrc_words8(low, blrc_sixteen(op, in, c + 16, weights, thresholds), even, odd);
        if (pool == 2) {
            for (i = 0; i < 4 && i < left; ++i) {
                const uint32_t above = my % 2 != 0 ? y[i * words] : 0;

                y[i * words] = above | even[i] | odd[i];
            }
        } else {
            for (i = 0; i < 8 && i < left; ++i) {
                y[i * words] = i % 2 != 0 ? odd[i / 2] : even[i / 2];
            }
        }
    }
}

void blrc_conv_eights(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                      BLRC_TABLE(uint32_t) weights, BLRC_TABLE(int16_t) thresholds, uint32_t *scratch, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t pool = op->pool.kernel_x, width = (op->map_width + 7) / 8 * 8;
    blrc_eights in = {x, table, table_rows == 1 ? 0 : 256, 0, 0, 0, scratch};
    int32_t done = -win->pad_y, my, mx;

    in.pitch = ((width - 1) * win->stride_x + win->kernel_x) * op->in_channels;
    in.nibbles = (win->kernel_y * win->kernel_x * op->in_channels + 3) / 4;
    in.rows = (int8_t *)(scratch + BLRC_SUMS * in.nibbles);
    for (my = 0; my < op->out_height * pool; ++my) {
        const int32_t top = my * win->stride_y - win->pad_y;

        for (done = done < top ? top : done; done < top + win->kernel_y; ++done) {
            blrc_fill_row(op, &in, done, in.rows + (done + win->pad_y) % win->kernel_y * in.pitch);
        }
        for (mx = 0; mx < op->out_width * pool; mx += 8) {
            blrc_eight_pixels(op, &in, my, mx, weights, thresholds, y);
        }
    }
}
