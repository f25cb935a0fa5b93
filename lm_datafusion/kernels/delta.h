/* Pages in the delta encodings, unpacked to PLAIN values.
 *
 * In: the values of a page in DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY or DELTA_BYTE_ARRAY.
 * Out: numbers of 4 or 8 bytes, or texts of a 4-byte length and their bytes.
 *
 * Numbers are a first value and differences: blocks of mini-blocks, each bit-packed, on top of the
 * smallest difference of their block. Sums wrap, as the specification says.
 *
 * Invariant: no byte outside [p, end) is read, whatever the page claims. What is written is counted
 * before there is room for it.
 */
#ifndef LM_DELTA_H
#define LM_DELTA_H

#include "hybrid.h"

/* Short texts are copied in steps of so many bytes: there is that much room behind the last one. */
#define LM_SLACK 16
#define LM_SHORT_TEXT 64
#define LM_MOST_VALUES 0x7fffffff

typedef struct {
    const uint8_t *p, *end;  /* what follows */
    int64_t block_minis;     /* mini-blocks in a block */
    int64_t mini_values;     /* values in a mini-block */
    int64_t total;           /* values in all */
    uint64_t first;          /* the first of them */
} lm_delta;

static int lm_delta_varint(lm_delta *d, uint64_t *out)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (d->p >= d->end)
            return LM_SHORT;
        uint8_t byte = *d->p++;
        x |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = x;
            return LM_OK;
        }
    }
    return LM_BAD_RUN;
}

static int lm_delta_zigzag(lm_delta *d, uint64_t *out)
{
    uint64_t x;
    int status = lm_delta_varint(d, &x);
    if (!status)
        *out = (x >> 1) ^ (0 - (x & 1));
    return status;
}

/* Reads the header; the sequence has to hold n values. */
static int lm_delta_open(lm_delta *d, const uint8_t *p, const uint8_t *end, int64_t n)
{
    uint64_t block, minis, total;
    int status;
    d->p = p;
    d->end = end;
    if ((status = lm_delta_varint(d, &block)) || (status = lm_delta_varint(d, &minis)) ||
        (status = lm_delta_varint(d, &total)) || (status = lm_delta_zigzag(d, &d->first)))
        return status;
    if (!block || block > LM_MOST_VALUES || !minis || minis > block || block % minis ||
        block / minis % 32)
        return LM_BAD_RUN;
    if (total < (uint64_t)n)
        return LM_SHORT;
    if (total > (uint64_t)n)
        return LM_TOO_LONG;
    d->block_minis = (int64_t)minis;
    d->mini_values = (int64_t)(block / minis);
    d->total = (int64_t)total;
    return LM_OK;
}

/* Whether bytes are a sequence of no values. */
static int lm_delta_empty(const uint8_t *p, const uint8_t *end)
{
    lm_delta d;
    return lm_delta_open(&d, p, end, 0);
}

/* The value at a bit; its last bit is inside [p, p + there). */
LM_INLINE uint64_t lm_delta_bits(const uint8_t *p, int64_t there, uint64_t bit, int width)
{
    int64_t byte = (int64_t)(bit >> 3);
    int shift = (int)(bit & 7);
    uint64_t x = lm_load_tail(p + byte, there - byte) >> shift;
    if (shift + width > 64)
        x |= (uint64_t)p[byte + 8] << (64 - shift);
    return x;
}

/* Adds `take` packed differences to `value`, and writes the sum after each. */
#define LM_DELTA_SUM(NAME, TYPE)                                                              \
    LM_INLINE TYPE NAME(const uint8_t *p, int64_t there, int width, int64_t take, TYPE least, \
                        TYPE value, uint8_t *out)                                             \
    {                                                                                         \
        uint64_t mask = width < 64 ? ((uint64_t)1 << width) - 1 : ~(uint64_t)0, bit = 0;      \
        int64_t i = 0, fast = 0;                                                              \
        if (!width) {                                                                         \
            for (; i < take; i++) {                                                           \
                value = (TYPE)(value + least);                                                \
                memcpy(out + i * (int64_t)sizeof value, &value, sizeof value);                \
            }                                                                                 \
            return value;                                                                     \
        }                                                                                     \
        /* As many as eight bytes can be loaded for. */                                       \
        if (width <= 57 && there >= 8)                                                        \
            fast = ((there - 8) * 8 + 7) / width + 1;                                         \
        if (fast > take)                                                                      \
            fast = take;                                                                      \
        for (; i < fast; i++, bit += (uint64_t)width) {                                       \
            uint64_t x;                                                                       \
            memcpy(&x, p + (bit >> 3), 8);                                                    \
            value = (TYPE)(value + (TYPE)(least + (TYPE)((x >> (bit & 7)) & mask)));          \
            memcpy(out + i * (int64_t)sizeof value, &value, sizeof value);                    \
        }                                                                                     \
        for (; i < take; i++, bit += (uint64_t)width) {                                       \
            uint64_t x = lm_delta_bits(p, there, bit, width) & mask;                          \
            value = (TYPE)(value + (TYPE)(least + (TYPE)x));                                  \
            memcpy(out + i * (int64_t)sizeof value, &value, sizeof value);                    \
        }                                                                                     \
        return value;                                                                         \
    }

/* All values of the sequence; then `p` is behind it. */
#define LM_DELTA_VALUES(NAME, SUM, TYPE)                                                      \
    static int NAME(lm_delta *d, uint8_t *out)                                                \
    {                                                                                         \
        TYPE value = (TYPE)d->first;                                                          \
        int64_t left = d->total;                                                              \
        if (!left)                                                                            \
            return LM_OK;                                                                     \
        memcpy(out, &value, sizeof value);                                                    \
        out += sizeof value;                                                                  \
        left--;                                                                               \
        while (left) {                                                                        \
            uint64_t least;                                                                   \
            int status = lm_delta_zigzag(d, &least);                                          \
            if (status)                                                                       \
                return status;                                                                \
            const uint8_t *widths = d->p;                                                     \
            if (d->end - d->p < d->block_minis)                                               \
                return LM_SHORT;                                                              \
            d->p += d->block_minis;                                                           \
            for (int64_t m = 0; m < d->block_minis && left; m++) {                            \
                int width = widths[m];                                                        \
                int64_t take = left < d->mini_values ? left : d->mini_values;                 \
                int64_t there = d->end - d->p, size = d->mini_values / 8 * width;             \
                if (width > 8 * (int)sizeof value)                                            \
                    return LM_BAD_RUN;                                                        \
                /* The last mini-block may lack its padding. */                               \
                if ((take * width + 7) / 8 > there)                                           \
                    return LM_SHORT;                                                          \
                value = SUM(d->p, there, width, take, (TYPE)least, value, out);               \
                d->p += size < there ? size : there;                                          \
                out += take * (int64_t)sizeof value;                                          \
                left -= take;                                                                 \
            }                                                                                 \
        }                                                                                     \
        return LM_OK;                                                                         \
    }
LM_DELTA_SUM(lm_delta_sum32, uint32_t)
LM_DELTA_SUM(lm_delta_sum64, uint64_t)
LM_DELTA_VALUES(lm_delta_values32, lm_delta_sum32, uint32_t)
LM_DELTA_VALUES(lm_delta_values64, lm_delta_sum64, uint64_t)

/* n numbers of 4 or 8 bytes. */
static int lm_delta_numbers(const uint8_t *p, const uint8_t *end, int64_t n, int64_t width,
                            uint8_t *out)
{
    lm_delta d;
    int status = lm_delta_open(&d, p, end, n);
    if (status)
        return status;
    return width == 4 ? lm_delta_values32(&d, out) : lm_delta_values64(&d, out);
}

/* n lengths, their sum, and what follows them. */
static int lm_delta_lengths(const uint8_t **p, const uint8_t *end, int64_t n, uint32_t *out,
                            int64_t *sum)
{
    lm_delta d;
    uint32_t seen = 0;
    int status = lm_delta_open(&d, *p, end, n);
    if (!status)
        status = lm_delta_values32(&d, (uint8_t *)out);
    if (status)
        return status;
    *sum = 0;
    for (int64_t i = 0; i < n; i++) {
        seen |= out[i];
        *sum += out[i];
    }
    *p = d.p;
    return seen >> 31 ? LM_BAD_LENGTH : LM_OK;
}

/* Copies a text, and up to LM_SLACK bytes behind it; from `from` on there are `there` bytes. In the
 * same memory the text ends before `to` begins. */
LM_INLINE void lm_copy_text(uint8_t *to, const uint8_t *from, int64_t n, int64_t there)
{
    if (n <= LM_SHORT_TEXT && there >= n + LM_SLACK) {
        for (int64_t i = 0; i < n; i += LM_SLACK) {
            uint64_t a, b;
            memcpy(&a, from + i, 8);
            memcpy(&b, from + i + 8, 8);
            memcpy(to + i, &a, 8);
            memcpy(to + i + 8, &b, 8);
        }
    } else {
        memcpy(to, from, (size_t)n);
    }
}

/* Texts one behind the other, each behind its length; the lengths fit into [p, end). */
static void lm_delta_texts(const uint8_t *p, const uint8_t *end, const uint32_t *lengths, int64_t n,
                           uint8_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(out, lengths + i, 4);
        lm_copy_text(out + 4, p, lengths[i], end - p);
        out += 4 + (int64_t)lengths[i];
        p += lengths[i];
    }
}

/* The bytes of all values, each the beginning of the one before and a rest; `width` is that of every
 * value, or 0. The rests come to less than 2^31 bytes, so that no sum of lengths overflows. */
static int lm_delta_size(const uint32_t *shared, const uint32_t *rests, int64_t n, int64_t width,
                         int64_t *size)
{
    int64_t before = 0;
    *size = 0;
    for (int64_t i = 0; i < n; i++) {
        if ((int64_t)shared[i] > before)
            return LM_BAD_LENGTH;
        before = (int64_t)shared[i] + (int64_t)rests[i];
        if (width && before != width)
            return LM_BAD_LENGTH;
        *size += before;
    }
    return LM_OK;
}

/* The values that `lm_delta_size` has measured, each behind its length unless they have a width. */
static void lm_delta_join(const uint8_t *p, const uint8_t *end, const uint32_t *shared,
                          const uint32_t *rests, int64_t n, int64_t width, uint8_t *out)
{
    const uint8_t *before = out;
    for (int64_t i = 0; i < n; i++) {
        int64_t head = shared[i], rest = rests[i];
        if (!width) {
            uint32_t length = shared[i] + rests[i];
            memcpy(out, &length, 4);
            out += 4;
        }
        /* The value before ends where this one begins: there is room to load from. */
        lm_copy_text(out, before, head, head + LM_SLACK);
        lm_copy_text(out + head, p, rest, end - p);
        before = out;
        out += head + rest;
        p += rest;
    }
}

#endif
