/* Substring search.
 *
 * Compares the first and the last byte of the needle with 32 (AVX2) or 16 (NEON) places of the text
 * at a time, and the rest only where both fit. AVX2 is checked for at run time; without it the C
 * library's memmem searches.
 */
#ifndef LM_FIND_H
#define LM_FIND_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "utf8.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define LM_HAS_AVX2_PATH 1
#elif defined(__aarch64__)
#include <arm_neon.h>
#define LM_HAS_NEON_PATH 1
#endif

typedef const uint8_t *(*lm_find_function)(const uint8_t *, int64_t, const uint8_t *, int64_t);

static const uint8_t *lm_find_portable(const uint8_t *text, int64_t n, const uint8_t *needle,
                                       int64_t k)
{
    if (n < k)
        return NULL;
    if (k == 0)
        return text;
    const uint8_t *stop = text + (n - k) + 1;
    while (text < stop) {
        text = memchr(text, needle[0], (size_t)(stop - text));
        if (!text)
            return NULL;
        if (!memcmp(text, needle, (size_t)k))
            return text;
        text++;
    }
    return NULL;
}

#ifdef LM_HAS_AVX2_PATH
__attribute__((target("avx2"))) static const uint8_t *lm_find_avx2(const uint8_t *text, int64_t n,
                                                                   const uint8_t *needle, int64_t k)
{
    if (k == 0 || n < k + 31)
        return lm_find_portable(text, n, needle, k);
    const __m256i first = _mm256_set1_epi8((char)needle[0]);
    const __m256i last = _mm256_set1_epi8((char)needle[k - 1]);
    int64_t i = 0;
    for (; i + k - 1 + 32 <= n; i += 32) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(text + i));
        __m256i b = _mm256_loadu_si256((const __m256i *)(text + i + k - 1));
        uint32_t hits = (uint32_t)_mm256_movemask_epi8(
            _mm256_and_si256(_mm256_cmpeq_epi8(a, first), _mm256_cmpeq_epi8(b, last)));
        while (hits) {
            int j = __builtin_ctz(hits);
            if (!memcmp(text + i + j, needle, (size_t)k))
                return text + i + j;
            hits &= hits - 1;
        }
    }
    return lm_find_portable(text + i, n - i, needle, k);
}
#endif

#ifdef LM_HAS_NEON_PATH
static const uint8_t *lm_find_neon(const uint8_t *text, int64_t n, const uint8_t *needle, int64_t k)
{
    if (k == 0 || n < k + 15)
        return lm_find_portable(text, n, needle, k);
    const uint8x16_t first = vdupq_n_u8(needle[0]), last = vdupq_n_u8(needle[k - 1]);
    int64_t i = 0;
    for (; i + k - 1 + 16 <= n; i += 16) {
        uint8x16_t both = vandq_u8(vceqq_u8(vld1q_u8(text + i), first),
                                   vceqq_u8(vld1q_u8(text + i + k - 1), last));
        /* Four bits a position. */
        uint64_t hits =
            vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(both), 4)), 0);
        while (hits) {
            int j = __builtin_ctzll(hits) / 4;
            if (!memcmp(text + i + j, needle, (size_t)k))
                return text + i + j;
            hits &= ~((uint64_t)0xf << (4 * j));
        }
    }
    return lm_find_portable(text + i, n - i, needle, k);
}
#endif

static lm_find_function lm_find = lm_find_portable;

/* Chooses what this processor can do; the name of its instructions. */
static const char *lm_choose_simd(int portable_only)
{
    lm_find = lm_find_portable;
    lm_has_avx2 = 0;
    if (portable_only)
        return "portable";
#ifdef LM_HAS_AVX2_PATH
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        lm_find = lm_find_avx2;
        lm_has_avx2 = 1;
        return "avx2";
    }
#endif
#ifdef LM_HAS_NEON_PATH
    lm_find = lm_find_neon;
    return "neon";
#endif
    return "portable";
}

#endif
