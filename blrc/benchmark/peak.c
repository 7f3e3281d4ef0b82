/* How many binary multiply-adds a second this CPU makes where all operands lie in registers: the limit of each level of
 * the instruction set. Only for the host, with gcc or clang. */
#include <stdint.h>
#include <string.h>

#if defined(__aarch64__)
#include "blrc_neon.h"
#else
#include "blrc_tier.h"
#endif

int32_t peak_level(void);
int32_t peak_level(void)
{
    return blrc_tier();
}

/* The compiler must believe that operands and sums change, or it takes work out of the loop, or adds in another order. */
#if defined(__x86_64__)
#define CHANGED(x) __asm__ volatile("" : "+r"(x))
#define CHANGED_VECTOR(x) __asm__ volatile("" : "+x"(x))
#define CHANGED_WIDE(x) __asm__ volatile("" : "+v"(x))
#elif defined(__aarch64__)
#define CHANGED(x) __asm__ volatile("" : "+r"(x))
#define CHANGED_VECTOR(x) __asm__ volatile("" : "+w"(x))
#else
#define CHANGED(x) __asm__ volatile("" : "+r"(x))
#endif

/* Four chains, so that none waits for itself, in four rounds: the loop itself costs little. */
#define FOUR(STEP) STEP(0) STEP(1) STEP(2) STEP(3)
#define ROUND(STEP) FOUR(STEP) FOUR(STEP) FOUR(STEP) FOUR(STEP)

/* xor, count, add: 64 multiply-adds. */
#define WORD_STEP(k) \
    CHANGED(w##k);   \
    CHANGED(s##k);   \
    s##k += (uint64_t)__builtin_popcountll(x ^ w##k);

uint64_t peak_portable(uint64_t rounds);
uint64_t peak_portable(uint64_t rounds)
{
    uint64_t x = rounds, w0 = 1, w1 = 3, w2 = 5, w3 = 7, s0 = 0, s1 = 0, s2 = 0, s3 = 0, i;

    for (i = 0; i < rounds; ++i) {
        ROUND(WORD_STEP)
    }
    return s0 + s1 + s2 + s3;
}

#if BLRC_X86
#include <immintrin.h>

uint64_t peak_popcnt(uint64_t rounds);
BLRC_TARGET_POPCNT uint64_t peak_popcnt(uint64_t rounds)
{
    uint64_t x = rounds, w0 = 1, w1 = 3, w2 = 5, w3 = 7, s0 = 0, s1 = 0, s2 = 0, s3 = 0, i;

    for (i = 0; i < rounds; ++i) {
        ROUND(WORD_STEP)
    }
    return s0 + s1 + s2 + s3;
}

/* Look up, add: a byte shuffle compares 4 bits of 32 rows, 128 multiply-adds. */
#define LOOK_STEP(k)     \
    CHANGED_VECTOR(w##k); \
    CHANGED_VECTOR(s##k); \
    s##k = _mm256_add_epi8(s##k, _mm256_shuffle_epi8(x, w##k));

uint64_t peak_avx2(uint64_t rounds);
BLRC_TARGET_AVX2 uint64_t peak_avx2(uint64_t rounds)
{
    const __m256i x = _mm256_set1_epi8((char)rounds);
    __m256i w0 = x, w1 = x, w2 = x, w3 = x, s0 = x, s1 = x, s2 = x, s3 = x;
    uint64_t i, result[4];

    for (i = 0; i < rounds; ++i) {
        ROUND(LOOK_STEP)
    }
    s0 = _mm256_add_epi8(_mm256_add_epi8(s0, s1), _mm256_add_epi8(s2, s3));
    memcpy(result, &s0, sizeof result);
    return result[0];
}

/* xor, count, add: 512 multiply-adds. */
#define WIDE_STEP(k)    \
    CHANGED_WIDE(w##k); \
    CHANGED_WIDE(s##k); \
    s##k = _mm512_add_epi64(s##k, _mm512_popcnt_epi64(_mm512_xor_si512(x, w##k)));

uint64_t peak_avx512(uint64_t rounds);
BLRC_TARGET_AVX512 uint64_t peak_avx512(uint64_t rounds)
{
    const __m512i x = _mm512_set1_epi64((long long)rounds);
    __m512i w0 = x, w1 = x, w2 = x, w3 = x, s0 = x, s1 = x, s2 = x, s3 = x;
    uint64_t i, result[8];

    for (i = 0; i < rounds; ++i) {
        ROUND(WIDE_STEP)
    }
    s0 = _mm512_add_epi64(_mm512_add_epi64(s0, s1), _mm512_add_epi64(s2, s3));
    memcpy(result, &s0, sizeof result);
    return result[0];
}
#endif

#if defined(__aarch64__) && BLRC_NEON
/* xor, count, add: 128 multiply-adds. */
#define BYTES_STEP(k)     \
    CHANGED_VECTOR(w##k); \
    CHANGED_VECTOR(s##k); \
    s##k = vaddq_u8(s##k, vcntq_u8(veorq_u8(x, w##k)));

uint64_t peak_neon(uint64_t rounds);
uint64_t peak_neon(uint64_t rounds)
{
    const uint8x16_t x = vdupq_n_u8((uint8_t)rounds);
    uint8x16_t w0 = x, w1 = x, w2 = x, w3 = x, s0 = x, s1 = x, s2 = x, s3 = x;
    uint64_t i;

    for (i = 0; i < rounds; ++i) {
        ROUND(BYTES_STEP)
    }
    return vaddvq_u8(vaddq_u8(vaddq_u8(s0, s1), vaddq_u8(s2, s3)));
}
#endif
