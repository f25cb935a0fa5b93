/* UTF-8 validation with a fast path for ASCII.
 *
 * In: bytes. Out: whether they are well-formed UTF-8 (no overlong forms, no surrogates, nothing
 * above U+10FFFF), as arrow-rs checks them.
 */
#ifndef LM_UTF8_H
#define LM_UTF8_H

#include "hybrid.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

LM_INLINE int lm_is_ascii8(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return !(word & 0x8080808080808080ULL);
}

static int lm_utf8_scalar(const uint8_t *p, int64_t n)
{
    const uint8_t *end = p + n;
    while (p < end) {
        if (end - p >= 8 && lm_is_ascii8(p)) {
            p += 8;
            continue;
        }
        uint8_t byte = *p;
        if (byte < 0x80) {
            p++;
        } else if (byte < 0xc2) {
            return 0; /* a continuation, or an overlong form */
        } else if (byte < 0xe0) {
            /* Two bytes: Cyrillic, Greek, Hebrew, Arabic; runs of them are common. */
            do {
                if (end - p < 2 || (p[1] & 0xc0) != 0x80)
                    return 0;
                p += 2;
            } while (p < end && *p >= 0xc2 && *p < 0xe0);
        } else if (byte < 0xf0) {
            if (end - p < 3 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80)
                return 0;
            if ((byte == 0xe0 && p[1] < 0xa0) || (byte == 0xed && p[1] > 0x9f))
                return 0;
            p += 3;
        } else if (byte < 0xf5) {
            if (end - p < 4 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80 ||
                (p[3] & 0xc0) != 0x80)
                return 0;
            if ((byte == 0xf0 && p[1] < 0x90) || (byte == 0xf4 && p[1] > 0x8f))
                return 0;
            p += 4;
        } else {
            return 0;
        }
    }
    return 1;
}

#if defined(__x86_64__)
/* The lookup method of Keiser and Lemire ("Validating UTF-8 In Less Than One Instruction Per Byte"):
 * three tables, indexed by the nibbles of a byte and of the one before it, name the errors that the
 * two may be part of; an error is one that all three name. */
enum {
    LM_TOO_SHORT = 1, LM_TOO_LONG_ = 2, LM_OVERLONG_3 = 4, LM_TOO_LARGE = 8, LM_SURROGATE = 16,
    LM_OVERLONG_2 = 32, LM_OVERLONG_4 = 64, LM_TWO_CONTINUATIONS = 128,
    LM_CARRY = LM_TOO_SHORT | LM_TOO_LONG_ | LM_TWO_CONTINUATIONS,
    /* Above U+10FFFF where the second byte is 1000____: shares its bit with OVERLONG_4. */
    LM_TOO_LARGE_1000 = LM_OVERLONG_4
};

#define LM_TABLE(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                   \
    _mm256_setr_epi8((char)(a), (char)(b), (char)(c), (char)(d), (char)(e), (char)(f), (char)(g),  \
                     (char)(h), (char)(i), (char)(j), (char)(k), (char)(l), (char)(m), (char)(n),  \
                     (char)(o), (char)(p), (char)(a), (char)(b), (char)(c), (char)(d), (char)(e),  \
                     (char)(f), (char)(g), (char)(h), (char)(i), (char)(j), (char)(k), (char)(l),  \
                     (char)(m), (char)(n), (char)(o), (char)(p))

#define LM_AVX2 __attribute__((target("avx2")))

LM_AVX2 static inline __m256i lm_utf8_errors(__m256i block, __m256i before)
{
    const __m256i low_nibble = _mm256_set1_epi8(0x0f);
    const int large = LM_TOO_LARGE | LM_TOO_LARGE_1000;
    const int second = LM_TOO_LONG_ | LM_OVERLONG_2 | LM_TWO_CONTINUATIONS;
    const __m256i first_high = LM_TABLE(
        LM_TOO_LONG_, LM_TOO_LONG_, LM_TOO_LONG_, LM_TOO_LONG_, LM_TOO_LONG_, LM_TOO_LONG_,
        LM_TOO_LONG_, LM_TOO_LONG_, LM_TWO_CONTINUATIONS, LM_TWO_CONTINUATIONS,
        LM_TWO_CONTINUATIONS, LM_TWO_CONTINUATIONS, LM_TOO_SHORT | LM_OVERLONG_2, LM_TOO_SHORT,
        LM_TOO_SHORT | LM_OVERLONG_3 | LM_SURROGATE, LM_TOO_SHORT | large | LM_OVERLONG_4);
    const __m256i first_low = LM_TABLE(
        LM_CARRY | LM_OVERLONG_3 | LM_OVERLONG_2 | LM_OVERLONG_4, LM_CARRY | LM_OVERLONG_2,
        LM_CARRY, LM_CARRY, LM_CARRY | LM_TOO_LARGE, LM_CARRY | large, LM_CARRY | large,
        LM_CARRY | large, LM_CARRY | large, LM_CARRY | large, LM_CARRY | large, LM_CARRY | large,
        LM_CARRY | large, LM_CARRY | large | LM_SURROGATE, LM_CARRY | large, LM_CARRY | large);
    const __m256i second_high = LM_TABLE(
        LM_TOO_SHORT, LM_TOO_SHORT, LM_TOO_SHORT, LM_TOO_SHORT, LM_TOO_SHORT, LM_TOO_SHORT,
        LM_TOO_SHORT, LM_TOO_SHORT, second | LM_OVERLONG_3 | LM_TOO_LARGE_1000 | LM_OVERLONG_4,
        second | LM_OVERLONG_3 | LM_TOO_LARGE, second | LM_SURROGATE | LM_TOO_LARGE,
        second | LM_SURROGATE | LM_TOO_LARGE, LM_TOO_SHORT, LM_TOO_SHORT, LM_TOO_SHORT,
        LM_TOO_SHORT);
    const __m256i across = _mm256_permute2x128_si256(before, block, 0x21);
    const __m256i one = _mm256_alignr_epi8(block, across, 15);
    const __m256i two = _mm256_alignr_epi8(block, across, 14);
    const __m256i three = _mm256_alignr_epi8(block, across, 13);
    __m256i named = _mm256_shuffle_epi8(
        first_high, _mm256_and_si256(_mm256_srli_epi16(one, 4), low_nibble));
    named = _mm256_and_si256(named,
                             _mm256_shuffle_epi8(first_low, _mm256_and_si256(one, low_nibble)));
    named = _mm256_and_si256(
        named, _mm256_shuffle_epi8(second_high,
                                   _mm256_and_si256(_mm256_srli_epi16(block, 4), low_nibble)));
    /* Behind the first byte of three or four, two continuations are no error but a must. */
    const __m256i third = _mm256_subs_epu8(two, _mm256_set1_epi8(0x60));
    const __m256i fourth = _mm256_subs_epu8(three, _mm256_set1_epi8(0x70));
    const __m256i must = _mm256_and_si256(_mm256_or_si256(third, fourth),
                                          _mm256_set1_epi8((char)0x80));
    return _mm256_xor_si256(must, named);
}

LM_AVX2 static int lm_utf8_avx2(const uint8_t *p, int64_t n)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i before = zero, errors = zero, block;
    uint8_t tail[32] = {0};
    for (; n >= 32; p += 32, n -= 32) {
        block = _mm256_loadu_si256((const __m256i *)p);
        /* A block of ASCII is right if the bytes before it ask for nothing. */
        if (!_mm256_movemask_epi8(_mm256_or_si256(block, before))) {
            before = block;
            continue;
        }
        errors = _mm256_or_si256(errors, lm_utf8_errors(block, before));
        before = block;
    }
    memcpy(tail, p, (size_t)n);
    block = _mm256_loadu_si256((const __m256i *)tail);
    errors = _mm256_or_si256(errors, lm_utf8_errors(block, before));
    return _mm256_testz_si256(errors, errors);
}
#endif

static int lm_has_avx2 = 0;

LM_INLINE int lm_utf8_is_valid(const uint8_t *p, int64_t n)
{
#if defined(__x86_64__)
    if (n >= 16 && lm_has_avx2)
        return lm_utf8_avx2(p, n);
#endif
    return lm_utf8_scalar(p, n);
}

#endif
