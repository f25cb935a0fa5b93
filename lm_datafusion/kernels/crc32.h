/* CRC-32 as zlib and gzip have it (polynomial 0x04C11DB7, bits reflected), the checksum of pages.

   Eight bytes at a time with tables; where the processor multiplies without carry, 64 bytes at a time:
   a block is multiplied by the power of x that its distance stands for, and added to a later one. */
#ifndef LM_CRC32_H
#define LM_CRC32_H

#include <stdint.h>
#include <string.h>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define LM_HAS_CLMUL_PATH
#include <immintrin.h>
#endif

static uint32_t lm_crc_tables[8][256];
static int lm_has_clmul = 0;

/* Fills the tables; to be called once before anything else. */
static void lm_crc32_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1)));
        lm_crc_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = lm_crc_tables[table - 1][byte];
            lm_crc_tables[table][byte] = (crc >> 8) ^ lm_crc_tables[0][crc & 0xFF];
        }
#ifdef LM_HAS_CLMUL_PATH
    __builtin_cpu_init();
    lm_has_clmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

static uint32_t lm_crc32_tables(uint32_t crc, const uint8_t *data, int64_t length)
{
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; length >= 8; data += 8, length -= 8) {
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = lm_crc_tables[7][low & 0xFF] ^ lm_crc_tables[6][(low >> 8) & 0xFF]
            ^ lm_crc_tables[5][(low >> 16) & 0xFF] ^ lm_crc_tables[4][low >> 24]
            ^ lm_crc_tables[3][high & 0xFF] ^ lm_crc_tables[2][(high >> 8) & 0xFF]
            ^ lm_crc_tables[1][(high >> 16) & 0xFF] ^ lm_crc_tables[0][high >> 24];
    }
#endif
    for (; length > 0; data++, length--)
        crc = (crc >> 8) ^ lm_crc_tables[0][(crc ^ *data) & 0xFF];
    return crc;
}

#ifdef LM_HAS_CLMUL_PATH
#define LM_CLMUL __attribute__((target("pclmul,sse4.1")))

LM_CLMUL static inline __m128i lm_crc_fold(__m128i block, __m128i powers, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(block, powers, 0x00);
    __m128i high = _mm_clmulepi64_si128(block, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

LM_CLMUL static inline __m128i lm_crc_load(const uint8_t *data)
{
    return _mm_loadu_si128((const __m128i *)data);
}

/* Of a multiple of 16 bytes, 64 at least. */
LM_CLMUL static uint32_t lm_crc32_clmul(uint32_t crc, const uint8_t *data, int64_t length)
{
    /* Powers of x modulo the polynomial: over 64 bytes, over 16, over 8 and 4; then what divides. */
    const __m128i far = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i near = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i last = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i divisor = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i a = _mm_xor_si128(lm_crc_load(data), _mm_cvtsi32_si128((int)crc));
    __m128i b = lm_crc_load(data + 16), c = lm_crc_load(data + 32), d = lm_crc_load(data + 48);
    __m128i part;
    for (data += 64, length -= 64; length >= 64; data += 64, length -= 64) {
        a = lm_crc_fold(a, far, lm_crc_load(data));
        b = lm_crc_fold(b, far, lm_crc_load(data + 16));
        c = lm_crc_fold(c, far, lm_crc_load(data + 32));
        d = lm_crc_fold(d, far, lm_crc_load(data + 48));
    }
    a = lm_crc_fold(lm_crc_fold(lm_crc_fold(a, near, b), near, c), near, d);
    for (; length >= 16; data += 16, length -= 16)
        a = lm_crc_fold(a, near, lm_crc_load(data));
    /* 128 bits to 96, to 64, to the remainder of 32. */
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, near, 0x10));
    part = _mm_srli_si128(a, 4);
    a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low_words), last, 0x00), part);
    part = _mm_clmulepi64_si128(_mm_and_si128(a, low_words), divisor, 0x10);
    part = _mm_clmulepi64_si128(_mm_and_si128(part, low_words), divisor, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, part), 1);
}
#endif

static uint32_t lm_crc32(const uint8_t *data, int64_t length)
{
    uint32_t crc = 0xFFFFFFFFu;
#ifdef LM_HAS_CLMUL_PATH
    if (lm_has_clmul && length >= 64) {
        int64_t whole = length & ~(int64_t)15;
        crc = lm_crc32_clmul(crc, data, whole);
        data += whole;
        length -= whole;
    }
#endif
    return lm_crc32_tables(crc, data, length) ^ 0xFFFFFFFFu;
}

#endif
