/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* blrc runtime: portable kernels of binary neural networks, in integers.
 *
 * C99 that is C++11 too. No allocation, floats, stdio, globals, recursion or variable-length arrays; nothing outside is
 * called but what a compiler itself may call (memcpy, memset, libgcc). Big- and little-endian; `int` may have 16 bits,
 * therefore every number here is an int32_t or uint32_t.
 *
 * Bit 1 is +1 and bit 0 is -1. Channel c is bit c % 32 of word c / 32 of a pixel; the unused bits of the last word are
 * 0. Maps are height, width, channels. Exports carry this file and its sources under the model's own prefix.
 */
#ifndef BLRC_H
#define BLRC_H

/* An older language is refused here alone: no source is read on then. Microsoft's compilers do not say which they
 * speak. */
#if !defined(_MSC_VER) && !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)
#error "blrc: this is C99 (also C++11); compile it with -std=c99 or newer"
#define BLRC_WRONG_LANGUAGE 1
typedef char blrc_wrong_language;
#elif !defined(_MSC_VER) && defined(__cplusplus) && __cplusplus < 201103L
#error "blrc: as C++ this is C++11; compile it with -std=c++11 or newer, or as C99"
#define BLRC_WRONG_LANGUAGE 1
typedef char blrc_wrong_language;
#else

#include <stdint.h>

/* Constant tables. Everywhere but on AVR a table is an array like others, and these say no more than C does. AVR keeps
 * them in flash, which is another memory than that of variables: an address there has 24 bits, it is read by special
 * instructions, and an array has at most 32,767 bytes.
 *
 *   BLRC_STORED const T t[]   a table
 *   BLRC_TABLE(T) p           a pointer to a table or into it: const T *
 *   BLRC_FAR(t)               the address of a table: t
 *   BLRC_SKIP(T, p, n)        p + n
 *   BLRC_READ(T, p, n)        p[n]
 *   BLRC_NEXT(T, p)           *p++
 *   BLRC_EVEN(n)              n bytes; on AVR an even number: code may follow, and instructions lie at even addresses
 *   BLRC_PART(whole, part)    length of an array that on AVR lies in parts, one behind the other
 *   BLRC_MEMBER(T, ts, n, k)  ts[k], the table of member k; each has n elements */
#if !defined(__AVR__)
#define BLRC_STORED
#define BLRC_TABLE(type) const type *
#define BLRC_FAR(table) (table)
#define BLRC_SKIP(type, table, n) ((table) + (n))
#define BLRC_READ(type, table, n) ((table)[n])
#define BLRC_NEXT(type, table) (*(table)++)
#define BLRC_EVEN(n) (n)
#define BLRC_PART(whole, part) whole
#define BLRC_MEMBER(type, tables, length, member) ((tables)[member])
#else
#include "blrc_flash_avr.h"
#endif

/* How functions are compiled: put in where they are called (BLRC_INLINE), or for themselves whatever compilers think of
 * their size, within a file (BLRC_APART) or for several (BLRC_NOINLINE). */
#if defined(__GNUC__)
#define BLRC_INLINE __attribute__((always_inline)) inline
#define BLRC_APART __attribute__((noinline, unused))
#define BLRC_NOINLINE __attribute__((noinline))
#else
#define BLRC_INLINE inline
#define BLRC_APART inline
#define BLRC_NOINLINE
#endif

/* Changes whenever a signature, a struct, a digest or the layout of a table changes: generated files refuse another
 * number. */
#define BLRC_ABI 6

/* Bits of the thresholds in tables, of binary convolutions and dense layers, and of convolutions of codes. An export
 * writes 16 where all of them, and the largest sums, fit: INT16_MAX then is "never", as INT32_MAX is with 32. */
#define BLRC_BIT_THRESHOLDS 32
#define BLRC_CODE_THRESHOLDS 32

/* A member of a struct whose address is taken: it lies where it would by itself, even where structs are packed
 * (-fpack-struct). AVR has no alignment. */
#if defined(__GNUC__) && !defined(__AVR__)
#define BLRC_ALIGNED(bytes) __attribute__((aligned(bytes)))
#else
#define BLRC_ALIGNED(bytes)
#endif

/* Rows (output channels) that share one activation word in a blocked table. */
#define BLRC_ROWS 4

/* What lies on the stack; an export writes smaller numbers where its layers are small.
 * Words of a row whose taps are collected (`blrc_conv_gather` and `_packed`), or that are looked at together
 * (`_taps`). */
#define BLRC_GATHER_WORDS 36

/* Codes that `blrc_conv_codes` tabulates at a time, 9 bytes each; and rows of one block: with less than 32 codes the
 * tables serve all blocks, so that their size is free. */
#define BLRC_CODES 32
#define BLRC_CODE_ROWS 16

/* In exports for hosts alone, words on the stack: the padded rows that a window sees, how many these are, and the bits
 * of one window. */
#define BLRC_TILE_LINES 1024
#define BLRC_TILE_HELD 16
#define BLRC_TILE_RUN 256

#ifdef __cplusplus
extern "C" {
#endif

#if BLRC_BIT_THRESHOLDS == 16
typedef int16_t blrc_bit_threshold;
#else
typedef int32_t blrc_bit_threshold;
#endif
#if BLRC_CODE_THRESHOLDS == 16
typedef int16_t blrc_code_threshold;
#else
typedef int32_t blrc_code_threshold;
#endif

/* Codes that `blrc_conv_bytes` tabulates at a time, 19 bytes each on the stack. 128 would fit the halves of a word. */
#define BLRC_BYTES 64

/* Of layers that write codes of several thresholds. */
#define BLRC_LEVEL_LIMITS 32
#if BLRC_LEVEL_LIMITS == 16
typedef int16_t blrc_level_limit;
#else
typedef int32_t blrc_level_limit;
#endif

/* A sliding window. Only the padding above and to the left is needed: sizes of the results say the rest. */
typedef struct blrc_window {
    int32_t kernel_y, kernel_x;
    int32_t stride_y, stride_x;
    int32_t pad_y, pad_x;
    int32_t dilation_y, dilation_x;
} blrc_window;

/* A convolution with threshold and fused max pooling. Without pooling `pool` is 1, 1, 1, 1, 0, 0, 1, 1. */
typedef struct blrc_conv {
    int32_t in_height, in_width, in_channels;
    int32_t map_height, map_width; /* of the pre-activations, before pooling */
    int32_t out_height, out_width, out_channels;
    int32_t groups;
    int32_t rows; /* 4: blocked table, out_channels per group padded to 4 (only where groups is 1); 1: plain rows;
                   * conv_slices, conv_quads: outputs that share taps */
    blrc_window window;
    blrc_window pool;
} blrc_conv;

typedef struct blrc_pool {
    int32_t in_height, in_width, channels;
    int32_t out_height, out_width;
    blrc_window window;
} blrc_pool;

/* One of several convolutions that run together, row by row, and how far it is. Of the maps between them only the rows
 * in use are kept. */
typedef struct blrc_strip {
    const blrc_conv *op;
    uint32_t *y;       /* its rows from `first` on */
    int32_t capacity;  /* rows that y holds: of the last convolution all, of others as many as the next one needs */
    int32_t first, done; /* rows first <= r < done of its output are there */
} blrc_strip;

/* The kernels, of which exports have those that they need. Where two comments follow each other, the first one is of
 * all functions up to the next blank line. */

/* Binary convolutions, bits -> bits: y = OR over the pooling window of (z >= threshold).
 *
 * z = n - 2 popcount(x xor w) over the n real (tap, channel) pairs: taps outside the map are skipped, not padded.
 *
 * weights: for each output channel kernel_y * kernel_x * ceil(group channels / 32) words in the order of the taps.
 *   rows = 1: row after row. rows = 4: block after block of 4 rows; in a block, for every pair of words
 *   w[pair][row][2], then for an odd last word w[row]. Missing rows of the last block are zeros with the
 *   threshold "never".
 * thresholds: one for each row.
 *
 * conv_packed alone has other rows: kernel_y * kernel_x * group channels bits without gaps between taps.
 *
 * All give the same bits; the exporter picks. */
/* For groups = 1, rows = 4, dilation_x = 1: reads the taps of a kernel row in one run. */
void blrc_conv_rows(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                    BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y);
/* At most BLRC_GATHER_WORDS a row: collects the taps of a pixel once. */
void blrc_conv_gather(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                      BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y);
/* Taps that do not fill their words; at most BLRC_GATHER_WORDS a row. */
void blrc_conv_packed(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                      BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y);
/* Anything else: tap after tap. */
void blrc_conv_taps(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                    BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y);

/* Binary convolutions whose pixels are the lanes of words, bits -> bits: 3x3, stride and dilation 1, padding 1 on all
 * sides, groups = 1, at most 1816 channels, maps at most 32 wide; no pooling, or of 2x2 pixels with stride 2 and no
 * padding.
 *
 * rows: outputs that share the work (a group), at most 6.
 * lists: for each group, of which k outputs are left, for each of 2 to the k - 1 kinds of taps how many times eight
 *   there are, and their places in the table (blrc_shared_taps.h); 0 is a place of zeros.
 * limits: for each output and plane a bit for each of 3x3 kinds of places in the map. */
/* 32 pixels at a time, in memory of the caller. scratch: 162 + 21 * in_channels words. */
void blrc_conv_slices(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint16_t) lists, BLRC_TABLE(uint16_t) limits,
                      uint32_t *scratch, uint32_t *y);
/* 128 pixels at a time: for the vectors of a Cortex-M55. scratch: 648 + 78 * in_channels words. */
void blrc_conv_quads(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint16_t) lists, BLRC_TABLE(uint16_t) limits,
                     uint32_t *scratch, uint32_t *y);

/* A dense layer, bits -> bits: `words` words of x (`inputs` real bits) against `outputs` rows in blocks of 4. */
void blrc_dense(int32_t inputs, int32_t words, int32_t outputs, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y);

/* Dense layers whose outputs are the lanes of words, bits -> bits, of fewer than 65,536 inputs, without gaps between
 * them.
 *
 * planes: bits of twice the number of inputs, and a sign; at least 4.
 * columns: for each 32 outputs for each input a word: bit k is the weight of output k. Missing outputs are 0.
 * limits: for each 32 outputs, planes of (inputs - threshold) / 2, rounded down and at least -1, less the ones among
 *   the output's weights; and planes of the same with these added instead. */
/* 32 outputs at a time, in memory of the caller. scratch: inputs / 2 + 1 + planes words. */
void blrc_dense_columns(int32_t inputs, int32_t outputs, int32_t planes, const uint32_t *x,
                        BLRC_TABLE(uint32_t) columns, BLRC_TABLE(uint32_t) limits, uint32_t *scratch, uint32_t *y);
/* 128 outputs at a time, in four words: for the vectors of a Cortex-M55. scratch: inputs / 2 + 1 + 4 planes
 * words. */
void blrc_dense_quads(int32_t inputs, int32_t outputs, int32_t planes, const uint32_t *x, BLRC_TABLE(uint32_t) columns,
                      BLRC_TABLE(uint32_t) limits, uint32_t *scratch, uint32_t *y);

/* Binary layers on hosts, whichever level of the instruction set the CPU has: see blrc_tile.h for the tables.
 *
 * limits: for each kind of place in the map its rows. */
/* A convolution with groups = 1. places: for each row of the map, then for each column, a number; their sum says which
 * kind. */
void blrc_conv_tiles(const blrc_conv *op, const uint32_t *x, const uint32_t *weights, const uint8_t *bytes,
                     const int32_t *limits, const int32_t *places, uint32_t *y);
/* A dense layer of an even number of words. */
void blrc_dense_tiles(int32_t words, int32_t outputs, const uint32_t *x, const uint32_t *weights, const int32_t *limits,
                      uint32_t *y);

/* On hosts the same as conv_tiles or, where the CPU has vectors but counts no bits in them, bit-sliced. 3x3, stride and
 * dilation 1, padding 1 on all sides, at most 904 channels, pooled or not as in conv_slices.
 *
 * lists: how many outputs share the work, at most 6; then as in conv_slices, but with 4 times the places.
 * starts: the limits there.
 * scratch: its size is known to blrc.targets.c.lanes. */
void blrc_conv_lanes(const blrc_conv *op, const uint32_t *x, const uint32_t *weights, const int32_t *limits,
                     const int32_t *places, const uint16_t *lists, const uint16_t *starts, uint32_t *scratch,
                     uint32_t *y);

/* Convolutions on 8-bit input, codes -> bits: y = OR over the pooling window of (z >= threshold), z = sum of +-code.
 *
 * x: int8_t codes where `table` is null; else uint8_t, and code = table[channel % table_rows][x] (256 entries each).
 * weights: a row is kernel_y * kernel_x * group channels bits without gaps, in that order. It is cut into nibbles; a
 *   word holds the same nibble of 8 rows, the first row lowest. For each group, block after block of BLRC_CODE_ROWS
 *   rows (the last one may be shorter); in a block, for each 8 nibbles (the last may be fewer), for each 8 rows, a word
 *   for each nibble. Missing bits and rows are 0. `rows` is ignored.
 * starts: instead of thresholds where sums are at most 16383: 65537 (32768 - threshold), where "never" is the largest
 *   sum + 1. */
/* Any. thresholds: for each group one for each row, padded with "never" to a multiple of 8. */
void blrc_conv_codes(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                     BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_code_threshold) thresholds, uint32_t *y);
/* For groups = 1 and at most BLRC_CODES codes a row, whose sums are at most 16383. */
void blrc_conv_pairs(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                     BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts, uint32_t *y);
/* Such where a kernel row has at most 4 codes and a kernel at most BLRC_CODES / 4 rows, with dilation_y = 1. weights:
 * as those of a kernel of rows of 4 codes, missing ones are 0. */
void blrc_conv_columns(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                       BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts, uint32_t *y);
/* Such eight pixels at a time: for the vectors of a Cortex-M55; undilated, not pooled or by 2x2.
 *
 * thresholds: for whole blocks of 8 rows, at most the largest sum + 1, as those of missing rows are.
 * scratch: 64 words for every four codes of a row of weights; then the codes of kernel_y rows of the map, each for as
 * many columns as whole blocks of 8 pixels see. */
void blrc_conv_eights(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                      BLRC_TABLE(uint32_t) weights, BLRC_TABLE(int16_t) thresholds, uint32_t *scratch, uint32_t *y);

/* Convolutions that write or read codes of several thresholds (see blrc_levels.h for maps of them). v is what a
 * constant of the row exceeds the sum z by, and pooling takes the smallest one. +-1 are written as codes of 1 bit.
 *
 * limits: for each group for each output 2^bits - 1, of BLRC_LEVEL_LIMITS bits, which never rise: the code is how many
 *   of them v does not exceed.
 * scales: or null; instead of limits a shift, then for each output a multiplier and the lower and upper half of an
 *   offset: the code is (offset - multiplier v) / 2^shift, at least 0 and at most 2^bits - 1.
 * scratch: in memory of the caller; its size is known to blrc.targets.c.kernels.families.levels. */
/* From `planes` bits of codes in planes, 0 for +-1; v = sum of 2^p popcount(plane p xor w). weights: as of conv_packed,
 * in whole blocks of `rows` for each group. */
void blrc_conv_planes(const blrc_conv *op, int32_t planes, int32_t bits, const uint32_t *x,
                      BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits, BLRC_TABLE(int32_t) scales,
                      uint32_t *scratch, void *y);
/* From planes of codes, of which a group has a multiple of four; where there are none, from bytes as conv_codes reads
 * them, and with 0 for table_rows from uint8_t codes as they are, in a map that begins at a word; v = -z. weights: as
 * of conv_codes with a single block of all rows of a group, and BLRC_BYTES codes at a time. */
void blrc_conv_bytes(const blrc_conv *op, int32_t planes, int32_t bits, const void *x, BLRC_TABLE(int8_t) table,
                     int32_t table_rows, BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits,
                     BLRC_TABLE(int32_t) scales, uint32_t *scratch, void *y);

/* Ternary convolutions and dense layers (see blrc_ternary.h): v is what a constant of the row exceeds the sum z by, and
 * pooling takes the smallest one. A code, or a bit as one of 1 bit, is made of v by limits or scales as above.
 *
 * weights: for each output channel kernel_y * kernel_x * group channels bits without gaps, in words: for each pair of
 *   words those of the signs, 1 for +1, then those of what is not 0; so also the last of an odd number.
 * scratch: in memory of the caller; its size is known to blrc.targets.c.kernels.families.ternary. */
/* Bits -> bits; v <= limit. */
void blrc_conv_ternary(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                       BLRC_TABLE(blrc_level_limit) limits, uint32_t *scratch, uint32_t *y);
/* From `planes` bits of codes in planes, 0 for +-1. */
void blrc_conv_ternary_planes(const blrc_conv *op, int32_t planes, int32_t bits, const uint32_t *x,
                              BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits,
                              BLRC_TABLE(int32_t) scales, uint32_t *scratch, void *y);
/* Codes -> bits as conv_pairs, with at most BLRC_CODES codes a row, or 33 of 32. weights: as of conv_ternary_bytes. */
void blrc_conv_ternary_pairs(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                             BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts, uint32_t *y);
/* From bytes as conv_bytes reads them; v = -z. weights: a row is cut into threes, numbers w0 + 3 w1 + 9 w2 + 13 of 5
 * bits; a word holds the same three of 6 rows, the first row lowest. For each group, for BLRC_CODES codes (33 of 32;
 * the last may be fewer), for each 6 rows, a word for each three. Missing weights are 0. */
void blrc_conv_ternary_bytes(const blrc_conv *op, int32_t bits, const void *x, BLRC_TABLE(int8_t) table,
                             int32_t table_rows, BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits,
                             BLRC_TABLE(int32_t) scales, uint32_t *scratch, void *y);

/* Layers with weights of 8 bits (see blrc_whole.h): v is the opposite of the sum z, and codes, or a bit as one of 1
 * bit, are made of it by limits or scales as above.
 *
 * x_bits: of the codes that are read; 0 for int8_t, or bytes that a table turns into codes; -1 for +-1.
 * weights: for each group's outputs rows of kernel_y * kernel_x * group channels, with zeros up to a multiple of four
 *   weights. Of the depthwise kernel, for each tap one weight of each channel.
 * scratch: in memory of the caller; its size is known to blrc.targets.c.kernels.families.whole. */
void blrc_conv_whole(const blrc_conv *op, int32_t x_bits, int32_t bits, const void *x, BLRC_TABLE(int8_t) table,
                     int32_t table_rows, BLRC_TABLE(int8_t) weights, BLRC_TABLE(blrc_level_limit) limits,
                     BLRC_TABLE(int32_t) scales, uint32_t *scratch, void *y);
void blrc_conv_whole_depthwise(const blrc_conv *op, int32_t x_bits, int32_t bits, const void *x,
                               BLRC_TABLE(int8_t) table, int32_t table_rows, BLRC_TABLE(int8_t) weights,
                               BLRC_TABLE(blrc_level_limit) limits, BLRC_TABLE(int32_t) scales, uint32_t *scratch,
                               void *y);

/* Codes of raw input: y[i] = table[channel % table_rows][x[i]] for `pixels` pixels. */
void blrc_encode(int32_t pixels, int32_t channels, const uint8_t *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                 int8_t *y);

/* Bits of raw input: bit c of a pixel is x >= limits[c % limit_count]. */
void blrc_binarize(int32_t pixels, int32_t channels, const uint8_t *x, BLRC_TABLE(int16_t) limits, int32_t limit_count,
                   uint32_t *y);

/* The bits of all pixels one after the other, without the unused bits of each pixel's last word. y may be x. */
void blrc_flatten(int32_t pixels, int32_t channels, const uint32_t *x, uint32_t *y);

/* A convolution on 8-bit input for groups = 1 on hosts: see blrc_dots.h for the tables.
 *
 * scratch: ((rows * columns of the padded input) * in_channels + 4) bytes, in whole words. */
void blrc_conv_dots(const blrc_conv *op, const void *x, const int8_t *table, int32_t table_rows, const int32_t *offsets,
                    int32_t quads, const int8_t *weights, const int32_t *thresholds, uint32_t *scratch, uint32_t *y);

/* What to compute next of convolutions that run together: the index of a convolution, or -1 where all is done.
 *
 * x: the whole input of the first one, x_row bytes a row.
 * part: becomes the convolution of one row of the output, with the rows of the input that it needs.
 * from, to: become these rows, and the place of the result. */
int32_t blrc_strips_next(blrc_strip *strips, int32_t count, const void *x, int32_t x_row, blrc_conv *part,
                         const void **from, uint32_t **to);

/* Max pooling of +-1 maps: OR over the window. y may be x where pad_y = pad_x = 0. */
void blrc_pool_or(const blrc_pool *op, const uint32_t *x, uint32_t *y);

/* Max pooling of codes. y may be x where pad_y = pad_x = 0. */
void blrc_pool_levels(const blrc_pool *op, int32_t bits, const void *x, void *y);

/* Sums under an undilated window: how many bits are 1 (x_bits = 1), or of codes of x_bits bits. They are codes of
 * `bits` bits, x_bits or more, as the largest sum has. */
void blrc_pool_sums(const blrc_pool *op, int32_t x_bits, int32_t bits, const void *x, void *y);

/* Scores of codes: y[class] = bias[class] + sum of weights[class][pixel][channel] times codes. */
void blrc_scores_levels(int32_t pixels, int32_t channels, int32_t classes, int32_t bits, const void *x,
                        BLRC_TABLE(int8_t) weights, BLRC_TABLE(int32_t) bias, int32_t *y);

/* Scores of codes by a binary last layer: y[class] = multiplier[class] * z + bias[class], z = sum of +-codes. weights:
 * for each class for each pixel its words. The exporter proves that no product or sum leaves int32. */
void blrc_scores_signs(int32_t pixels, int32_t channels, int32_t classes, int32_t bits, const void *x,
                       BLRC_TABLE(uint32_t) weights, BLRC_TABLE(int32_t) multiplier, BLRC_TABLE(int32_t) bias,
                       int32_t *y);

/* Scores by a ternary last layer, of codes of `bits` bits, 0 for +-1: y[class] = multiplier[class] * z + bias[class].
 * weights: for each class for each pixel the words of its signs, then those of what is not 0. */
void blrc_scores_ternary(int32_t pixels, int32_t channels, int32_t classes, int32_t bits, const void *x,
                         BLRC_TABLE(uint32_t) weights, BLRC_TABLE(int32_t) multiplier, BLRC_TABLE(int32_t) bias,
                         int32_t *y);

/* Scores: y[class] = bias[class] + sum of +-weights[class][pixel][channel] by the signs in x. */
void blrc_scores_int8(int32_t pixels, int32_t channels, int32_t classes, const uint32_t *x, BLRC_TABLE(int8_t) weights,
                      BLRC_TABLE(int32_t) bias, int32_t *y);
void blrc_scores_int16(int32_t pixels, int32_t channels, int32_t classes, const uint32_t *x,
                       BLRC_TABLE(int16_t) weights, BLRC_TABLE(int32_t) bias, int32_t *y);

/* Scores on hosts: y[class] = bias[class] + those weights whose bit of x is set. weights: for each class 32 for each of
 * the `words` words of x, 0 for its unused bits; bias: the scores where no bit of x is set. */
void blrc_scores_dots(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, const int32_t *bias,
                      int32_t *y);

/* Scores of a binary last layer: y[class] = multiplier[class] * z + bias[class], z = inputs - 2 popcount(x xor weights)
 * over the `words` words of x and of the class's row. The exporter proves that no product or sum leaves int32. */
void blrc_scores_binary(int32_t inputs, int32_t words, int32_t classes, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                        BLRC_TABLE(int32_t) multiplier, BLRC_TABLE(int32_t) bias, int32_t *y);

/* Index of the first maximum of `count` >= 1 numbers. */
int32_t blrc_argmax(int32_t count, const int32_t *scores);

/* The head: log softmax base 2 of one member's scores, added to an ensemble's sums for each class.
 *
 * scores: any; a real score is score x scale, and scale x log2(e) x 2^16 = multiplier / 2^shift (multiplier below 2^31,
 *   shift at most 46).
 * log_p: sum of log2 of the probability, Q16, each at least -24. p: sum of the probability, Q16. p_squared: Q32.
 *
 * At most 1365 members and 4096 classes: then nothing overflows. */
void blrc_head_add(int32_t classes, uint32_t multiplier, int32_t shift, const int32_t *scores, int32_t *log_p,
                   uint32_t *p, uint64_t *p_squared);

/* Mean (Q16) and population variance (Q32, at most 2^30) of one class's probability over members >= 1, rounded down. */
uint32_t blrc_head_mean(uint32_t members, uint32_t p);
uint32_t blrc_head_variance(uint32_t members, uint32_t p, uint64_t p_squared);

/* 1: whatever `remaining` further members say, the first maximum of log_p stays the same; else 0. */
int32_t blrc_head_settled(int32_t classes, uint32_t remaining, const int32_t *log_p);

/* Values of one member, added to an ensemble's sums for each value: sum, and sum of squares. The exporter proves that
 * members times the largest magnitude stays below 2^31: then nothing overflows. */
void blrc_values_add(int32_t count, const int32_t *values, int32_t *sum, uint64_t *squares);

/* Mean over members >= 1, rounded to nearest, halves up, and population variance, rounded down, of one value. */
int32_t blrc_values_mean(uint32_t members, int32_t sum);
uint64_t blrc_values_variance(uint32_t members, int32_t sum, uint64_t squares);

/* A hash over elements widened to 32 bits, not over bytes, so that it is the same on every machine. */
#define BLRC_DIGEST_START 2166136261u
uint32_t blrc_digest_bits(uint32_t words, const uint32_t *map);
/* The same of a map that comes in pieces: from the digest of those before, first BLRC_DIGEST_START. */
uint32_t blrc_digest_more(uint32_t state, uint32_t words, const uint32_t *map);
uint32_t blrc_digest_int8(uint32_t count, const int8_t *map);
uint32_t blrc_digest_int32(uint32_t count, const int32_t *map);

#ifdef __cplusplus
}
#endif

#endif

#endif
