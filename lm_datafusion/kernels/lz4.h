/* How many bytes an LZ4 block holds, without unpacking them.
 *
 * A block is a list of sequences: a token, literals, and (but for the last) a match: where the bytes
 * to repeat are, and how many. Both lengths begin in the token and go on in bytes of 255.
 *
 * Invariant: no byte outside [p, p + n) is read. The size is that which a decoder comes to, if it
 * comes to an end; whether matches point to bytes that are there is the decoder's to check.
 */
#ifndef LM_LZ4_H
#define LM_LZ4_H

#include "hybrid.h"

LM_INLINE int lm_lz4_length(const uint8_t **p, const uint8_t *end, int64_t *length)
{
    if (*length < 15)
        return 1;
    for (;;) {
        if (*p == end)
            return 0;
        uint8_t byte = *(*p)++;
        *length += byte;
        if (byte != 255)
            return 1;
    }
}

/* -1 if the block ends too soon. */
static int64_t lm_lz4_size(const uint8_t *p, int64_t n)
{
    const uint8_t *end = p + n;
    int64_t size = 0;
    while (p < end) {
        uint8_t token = *p++;
        int64_t literals = token >> 4, match = token & 15;
        if (!lm_lz4_length(&p, end, &literals) || literals > end - p)
            return -1;
        p += literals;
        size += literals;
        if (p == end)
            return size;
        if (end - p < 2)
            return -1;
        p += 2;
        if (!lm_lz4_length(&p, end, &match))
            return -1;
        size += match + 4;
    }
    return -1;
}

#endif
