/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution of codes that are bytes, or lie in planes, with +-1 weights, to codes.
 *
 * As in conv_codes the 16 sums of every four codes are tabulated and looked up by nibbles of weights, and as in
 * conv_pairs those of two windows are in the halves of a word: a sum of BLRC_BYTES codes fits. The tables of so many
 * codes serve all rows before those of the next codes are made, and sums wait in memory. Four codes that are 0 in both
 * windows, as most codes are behind a layer that ends in a ReLU, have no table. */
#include "blrc_levels.h"
#include "blrc_pairs.h"

/* What a layer reads: planes; or bytes that a table turns into codes, int8_t where there is no table, and uint8_t where
 * it has no rows. */
typedef struct blrc_byte_input {
    int32_t planes;
    const void *x;
    BLRC_TABLE(int8_t) table;
    int32_t table_rows;
} blrc_byte_input;

/* A table: 16 sums by bits, and which four codes they are of. Behind the last one stands BLRC_BYTE_END. */
#define BLRC_BYTE_TABLE 17
#define BLRC_BYTE_END 0xFFFFFFFFu

/* Codes from channel c of a pixel on: multiples of four. In the product, bit j of four is bit 8 j as well. */
static BLRC_INLINE void blrc_unpack_bytes(int32_t planes, int32_t words, const uint32_t *pixel, int32_t c,
                                          int32_t count, uint8_t *to)
{
    const uint8_t *const stop = to + count;

    for (; to != stop; to += 4, c += 4) {
        const uint32_t *plane = pixel + planes * words + c / 32;
        uint32_t four = 0;

        do {
            plane -= words;
            four = 2 * four + ((((*plane >> (c % 32)) & 15u) * 0x00204081u) & 0x01010101u);
        } while (plane - pixel >= words);
        to[0] = (uint8_t)four;
        to[1] = (uint8_t)(four >> 8);
        to[2] = (uint8_t)(four >> 16);
        to[3] = (uint8_t)(four >> 24);
    }
}

/* Codes of runs, from channel c of a group on: to[0] up to to[count - 1]. */
static BLRC_INLINE void blrc_copy_bytes(const blrc_byte_input *in, const void *from, int32_t channels, int32_t g,
                                        int32_t c, int32_t count, void *codes)
{
    const uint8_t *x = (const uint8_t *)from;
    uint8_t *to = (uint8_t *)codes, *const stop = to + count;

    if (in->table_rows == 0 && channels % 4 == 0) { /* all lies in whole words */
        const uint32_t *word = (const uint32_t *)from;
        uint32_t *words = (uint32_t *)codes, *const end = words + count / 4;

        while (words != end) {
            *words++ = *word++;
        }
    } else if (in->table_rows == 0) {
        while (to != stop) {
            *to++ = *x++;
        }
    } else if (in->table == 0) {
        while (to != stop) {
            *to++ = *x++ ^ 0x80u;
        }
    } else if (in->table_rows == 1) {
        while (to != stop) {
            *to++ = (uint8_t)BLRC_READ(int8_t, in->table, *x++) ^ 0x80u;
        }
    } else {
        for (; to != stop; c = c + 1 == channels ? 0 : c + 1) {
            *to++ = (uint8_t)BLRC_READ(int8_t, in->table, 256 * (g * channels + c) + *x++) ^ 0x80u;
        }
    }
}

/* Codes first <= f < first + count of group g of a window, in the order (ky, kx, channel), and more up to a multiple of
 * four; `absent` stands for 0: those outside the map, and what is too much. They are read in runs that lie together in
 * the map: kernel rows, or taps where the kernel is dilated or sees a part of the channels, and in planes. */
static BLRC_APART void blrc_collect_bytes(const blrc_conv *op, const blrc_byte_input *in, int32_t g, int32_t my,
                                          int32_t mx, int32_t first, int32_t count, uint32_t absent, uint32_t *codes)
{
    const blrc_window *win = &op->window;
    const int32_t channels = op->in_channels / op->groups;
    const int32_t taps = op->groups == 1 && win->dilation_x == 1 && in->planes == 0 ? win->kernel_x : 1;
    const int32_t run = taps * channels;
    int32_t f, tap = first / run * taps, from = first % run;

    for (f = 0; f < (count + 3) / 4; ++f) {
        codes[f] = absent;
    }
    for (f = 0; f < count; tap += taps, from = 0) {
        const int32_t row = my * win->stride_y - win->pad_y + tap / win->kernel_x * win->dilation_y;
        const int32_t column = mx * win->stride_x - win->pad_x + tap % win->kernel_x * win->dilation_x;
        const int32_t end = run - from < count - f ? run : from + count - f;
        const int32_t last = (op->in_width - column) * channels < end ? (op->in_width - column) * channels : end;
        const int32_t start = -column * channels > from ? -column * channels : from;

        if (row >= 0 && row < op->in_height && start < last) {
            const int32_t pixel = row * op->in_width + column;
            uint8_t *const to = (uint8_t *)codes + (f + start - from);

            if (in->planes > 0) {
                const int32_t words = blrc_words(op->in_channels);

                blrc_unpack_bytes(in->planes, words, (const uint32_t *)in->x + pixel * in->planes * words,
                                  g * channels + start, last - start, to);
            } else {
                blrc_copy_bytes(in, (const uint8_t *)in->x + pixel * op->in_channels + g * channels + start, channels,
                                g, start % channels, last - start, to);
            }
        }
        f += end - from;
    }
}

/* Tables of four codes of two windows each, without those that are 0. */
static BLRC_APART void blrc_tabulate_bytes(const uint8_t *x, const uint8_t *other, uint32_t absent, uint32_t nibbles,
                                           uint32_t *sums)
{
    uint32_t k;

    for (k = 0; k < nibbles; ++k, x += 4, other += 4) {
        /* All codes were collected before.
         * NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        const uint32_t a = x[0] + ((uint32_t)other[0] << 16) - absent;
        const uint32_t b = x[1] + ((uint32_t)other[1] << 16) - absent;
        const uint32_t c = x[2] + ((uint32_t)other[2] << 16) - absent;
        const uint32_t d = x[3] + ((uint32_t)other[3] << 16) - absent;

        if ((a | b | c | d) != 0) {
            blrc_tabulate_four(a, b, c, d, sums);
            sums[16] = k;
            sums += BLRC_BYTE_TABLE;
        }
    }
    sums[16] = BLRC_BYTE_END;
}

static BLRC_INLINE void blrc_subtract_halves(uint32_t z, int32_t *v)
{
    v[0] -= (int32_t)(z & 0xFFFFu);
    v[1] -= (int32_t)(z >> 16);
}

/* v -= the sums of 8 rows, whose nibbles share a word, in two windows: by turns. Sums are counted from BLRC_BYTE_ZERO,
 * so that nothing is borrowed between halves. */
#define BLRC_BYTE_ZERO 0x8000

static BLRC_APART void blrc_subtract_rows(BLRC_TABLE(uint32_t) weights, const uint32_t *sums, int32_t *v)
{
    uint32_t z0 = BLRC_BYTE_ZERO * 0x10001u, z1 = z0, z2 = z0, z3 = z0, z4 = z0, z5 = z0, z6 = z0, z7 = z0;

    for (; sums[16] != BLRC_BYTE_END; sums += BLRC_BYTE_TABLE) {
        const uint32_t w = BLRC_READ(uint32_t, weights, sums[16]);

        z0 += sums[w & 15u];
        z1 += sums[(w >> 4) & 15u];
        z2 += sums[(w >> 8) & 15u];
        z3 += sums[(w >> 12) & 15u];
        z4 += sums[(w >> 16) & 15u];
        z5 += sums[(w >> 20) & 15u];
        z6 += sums[(w >> 24) & 15u];
        z7 += sums[w >> 28];
    }
    blrc_subtract_halves(z0, v);
    blrc_subtract_halves(z1, v + 2);
    blrc_subtract_halves(z2, v + 4);
    blrc_subtract_halves(z3, v + 6);
    blrc_subtract_halves(z4, v + 8);
    blrc_subtract_halves(z5, v + 10);
    blrc_subtract_halves(z6, v + 12);
    blrc_subtract_halves(z7, v + 14);
}

/* v of all rows of a group, negative sums, of the windows at two map pixels by turns; of one twice where my and mx
 * repeat. */
static void blrc_windows_of_bytes(const blrc_conv *op, const blrc_byte_input *in, int32_t g, const int32_t *my,
                                  const int32_t *mx, int32_t rows, BLRC_TABLE(uint32_t) weights, int32_t *v)
{
    const int32_t fan_in = op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups);
    const int32_t same = my[0] == my[1] && mx[0] == mx[1];
    const uint32_t bias = in->table_rows == 0 ? 0 : 0x80u;
    uint32_t sums[(BLRC_BYTES / 4 + 1) * BLRC_BYTE_TABLE], codes[BLRC_BYTES / 4 * 2];
    uint32_t *const other = same ? codes : codes + BLRC_BYTES / 4;
    int32_t first, r;

    for (r = 0; r < 2 * rows; ++r) {
        v[r] = (fan_in + BLRC_BYTES - 1) / BLRC_BYTES * BLRC_BYTE_ZERO;
    }
    for (first = 0; first < fan_in; first += BLRC_BYTES) {
        const int32_t count = fan_in - first < BLRC_BYTES ? fan_in - first : BLRC_BYTES, nibbles = (count + 3) / 4;

        blrc_collect_bytes(op, in, g, my[0], mx[0], first, count, bias * 0x01010101u, codes);
        if (!same) {
            blrc_collect_bytes(op, in, g, my[1], mx[1], first, count, bias * 0x01010101u, other);
        }
        blrc_tabulate_bytes((const uint8_t *)codes, (const uint8_t *)other, bias * 0x00010001u, (uint32_t)nibbles,
                            sums);
        for (r = 0; r < rows; r += 8, weights = BLRC_SKIP(uint32_t, weights, nibbles)) {
            blrc_subtract_rows(weights, sums, v + 2 * r);
        }
    }
}

/* least[r] = the smaller v of two windows, or what it was if that is less. `least` may be v the first time. */
static BLRC_APART void blrc_least_of_bytes(int32_t rows, int32_t again, const int32_t *v, int32_t *least)
{
    int32_t r;

    for (r = 0; r < rows; ++r, v += 2) {
        const int32_t less = v[1] < v[0] ? v[1] : v[0];

        least[r] = again && least[r] < less ? least[r] : less;
    }
}

/* The codes of channels from `first` on in a pixel, of v, v[step] and so on. */
static BLRC_APART void blrc_codes_of_bytes(const blrc_level_rule *rule, int32_t of_plane, int32_t first, int32_t count,
                                           const int32_t *v, int32_t step, uint8_t *to)
{
    const blrc_level_rule own = *rule;
    const int32_t end = first + count;

    for (; first != end; ++first, v += step) {
        blrc_put_code(own.bits, of_plane, blrc_code_of(&own, *v, first), first, to);
    }
}

void blrc_conv_bytes(const blrc_conv *op, int32_t planes, int32_t bits, const void *x, BLRC_TABLE(int8_t) table,
                     int32_t table_rows, BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits,
                     BLRC_TABLE(int32_t) scales, uint32_t *scratch, void *y)
{
    const blrc_level_rule rule = {bits, limits, scales};
    const blrc_byte_input in = {planes, x, table, table_rows};
    const blrc_window *pool = &op->pool;
    const int32_t outputs = op->out_channels / op->groups, rows = (outputs + 7) / 8 * 8;
    const int32_t fan_in = op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups);
    const int32_t of_plane = blrc_words(op->out_channels), apart = pool->kernel_y * pool->kernel_x == 1;
    int32_t *const v = (int32_t *)scratch, *const least = pool->kernel_y * pool->kernel_x > 2 ? v + 2 * rows : v;
    uint8_t *to = (uint8_t *)y;
    const int32_t pixel_bytes = blrc_pixel_bytes(bits, op->out_channels);
    int32_t oy, ox, py, px, g, p, pixels, my[2], mx[2];

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span down = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ox += pixels, to += pixels * pixel_bytes) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);
            const int32_t count = (down.end - down.first) * (across.end - across.first);

            pixels = apart && ox + 1 < op->out_width ? 2 : 1; /* without pooling, two at a time */
            if (blrc_zero_if_empty(&down, &across, bits, op->out_channels, to)) {
                continue;
            }
            for (p = 0; p < pixels; ++p) {
                blrc_clear_pixel(bits, op->out_channels, to + p * pixel_bytes);
            }
            for (g = 0; g < op->groups; ++g) {
                BLRC_TABLE(uint32_t) const w = BLRC_SKIP(uint32_t, weights, g * (rows / 8) * ((fan_in + 3) / 4));
                int32_t done = 0;

                for (py = down.first; py < down.end; ++py) {
                    for (px = across.first; px < across.end; ++px) {
                        my[done % 2] = top + py * pool->dilation_y;
                        mx[done % 2] = left + px * pool->dilation_x;
                        ++done;
                        if (done % 2 != 0) {
                            if (done < count) {
                                continue;
                            }
                            my[1] = my[0]; /* the last of an odd number; or that of the next output */
                            mx[1] = mx[0] + (pixels - 1) * pool->stride_x;
                        }
                        blrc_windows_of_bytes(op, &in, g, my, mx, rows, w, v);
                        if (!apart) {
                            blrc_least_of_bytes(outputs, done > 2, v, least);
                        }
                    }
                }
                for (p = 0; p < pixels; ++p) {
                    blrc_codes_of_bytes(&rule, of_plane, g * outputs, outputs, apart ? v + p : least, apart ? 2 : 1,
                                        to + p * pixel_bytes);
                }
            }
        }
    }
}
