/* BYTE_STREAM_SPLIT pages: the first bytes of all values, then the second bytes, and so on.
 *
 * In: streams of bytes, one per byte of a value. Out: PLAIN values.
 */
#ifndef LM_STREAMS_H
#define LM_STREAMS_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

/* Sixteen values of 4 streams at a time; how many were written. */
static int64_t lm_join_4(const uint8_t *p, int64_t stride, int64_t n, uint8_t *out)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i s[4], a, b, c, d;
        for (int k = 0; k < 4; k++)
            s[k] = _mm_loadu_si128((const __m128i *)(p + k * stride + i));
        a = _mm_unpacklo_epi8(s[0], s[1]);
        b = _mm_unpackhi_epi8(s[0], s[1]);
        c = _mm_unpacklo_epi8(s[2], s[3]);
        d = _mm_unpackhi_epi8(s[2], s[3]);
        _mm_storeu_si128((__m128i *)(out + i * 4), _mm_unpacklo_epi16(a, c));
        _mm_storeu_si128((__m128i *)(out + i * 4 + 16), _mm_unpackhi_epi16(a, c));
        _mm_storeu_si128((__m128i *)(out + i * 4 + 32), _mm_unpacklo_epi16(b, d));
        _mm_storeu_si128((__m128i *)(out + i * 4 + 48), _mm_unpackhi_epi16(b, d));
    }
    return i;
}

static int64_t lm_join_8(const uint8_t *p, int64_t stride, int64_t n, uint8_t *out)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i s[8], t[8];
        for (int k = 0; k < 8; k++)
            s[k] = _mm_loadu_si128((const __m128i *)(p + k * stride + i));
        /* Pairs of neighbours, then fours, then eights: each step doubles what stands together. */
        for (int k = 0; k < 4; k++) {
            t[k] = _mm_unpacklo_epi8(s[2 * k], s[2 * k + 1]);
            t[k + 4] = _mm_unpackhi_epi8(s[2 * k], s[2 * k + 1]);
        }
        for (int k = 0; k < 8; k += 4) {
            s[k] = _mm_unpacklo_epi16(t[k], t[k + 1]);
            s[k + 1] = _mm_unpackhi_epi16(t[k], t[k + 1]);
            s[k + 2] = _mm_unpacklo_epi16(t[k + 2], t[k + 3]);
            s[k + 3] = _mm_unpackhi_epi16(t[k + 2], t[k + 3]);
        }
        for (int k = 0; k < 8; k += 4)
            for (int j = 0; j < 2; j++) {
                uint8_t *to = out + i * 8 + (k + 2 * j) * 16;
                _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi32(s[k + j], s[k + j + 2]));
                _mm_storeu_si128((__m128i *)(to + 16), _mm_unpackhi_epi32(s[k + j], s[k + j + 2]));
            }
    }
    return i;
}
#else
static int64_t lm_join_4(const uint8_t *p, int64_t stride, int64_t n, uint8_t *out)
{
    (void)p, (void)stride, (void)n, (void)out;
    return 0;
}

static int64_t lm_join_8(const uint8_t *p, int64_t stride, int64_t n, uint8_t *out)
{
    (void)p, (void)stride, (void)n, (void)out;
    return 0;
}
#endif

/* n values of `width` streams, which are `stride` bytes long. */
static void lm_join_streams(const uint8_t *p, int64_t stride, int64_t n, int64_t width, uint8_t *out)
{
    int64_t done = width == 4 ? lm_join_4(p, stride, n, out)
                   : width == 8 ? lm_join_8(p, stride, n, out) : 0;
    for (int64_t i = done; i < n; i++)
        for (int64_t k = 0; k < width; k++)
            out[i * width + k] = p[k * stride + i];
}

#endif
