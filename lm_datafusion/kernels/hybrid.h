/* The RLE / bit-packed hybrid: definition levels and dictionary codes.
 *
 * In: the bytes of a run sequence and its bit width. Out: values, all of them or those at chosen
 * positions.
 *
 * Invariant: no byte outside [p, end) is read, whatever the runs claim.
 */
#ifndef LM_HYBRID_H
#define LM_HYBRID_H

#include <stdint.h>
#include <string.h>

#define LM_INLINE static inline __attribute__((always_inline))

enum { LM_OK = 0, LM_SHORT = -1, LM_BAD_RUN = -2, LM_BAD_CODE = -3, LM_BAD_LENGTH = -4,
       LM_BAD_UTF8 = -5, LM_TOO_LONG = -6 };

typedef struct {
    const uint8_t *p, *end; /* what follows the current run */
    const uint8_t *packed;  /* bit-packed values of the current run, NULL for an RLE run */
    int64_t packed_bytes;   /* how many bytes of them are there */
    int64_t at;             /* values of the current run that were passed already */
    int64_t left;           /* values of the current run that are left */
    uint32_t value;         /* the value of an RLE run */
    int width;
} lm_hybrid;

LM_INLINE uint64_t lm_load_tail(const uint8_t *p, int64_t available)
{
    uint64_t x = 0;
    if (available > 0)
        memcpy(&x, p, available < 8 ? (size_t)available : 8);
    return x;
}

static int lm_hybrid_open(lm_hybrid *h, const uint8_t *p, const uint8_t *end, int width)
{
    if (width < 0 || width > 32)
        return LM_BAD_RUN;
    h->p = p;
    h->end = end;
    h->packed = NULL;
    h->packed_bytes = 0;
    h->at = h->left = 0;
    h->value = 0;
    h->width = width;
    return LM_OK;
}

/* Reads the header of the next run. Runs without values are passed over. */
static int lm_hybrid_next(lm_hybrid *h)
{
    do {
        uint64_t header = 0;
        int shift = 0;
        uint8_t byte;
        do {
            if (h->p >= h->end)
                return LM_SHORT;
            if (shift > 28)
                return LM_BAD_RUN;
            byte = *h->p++;
            header |= (uint64_t)(byte & 0x7f) << shift;
            shift += 7;
        } while (byte & 0x80);
        h->at = 0;
        if (header & 1) {
            int64_t groups = (int64_t)(header >> 1);
            int64_t bytes = groups * h->width, there = h->end - h->p;
            /* The last run may lack the padding of its last group. */
            h->packed = h->p;
            h->packed_bytes = bytes < there ? bytes : there;
            h->left = groups * 8;
            if (bytes > there && h->width)
                h->left = there * 8 / h->width;
            if (!h->left && groups)
                return LM_SHORT;
            h->p += h->packed_bytes;
        } else {
            int bytes = (h->width + 7) / 8;
            if (h->end - h->p < bytes)
                return LM_SHORT;
            h->packed = NULL;
            h->value = 0;
            memcpy(&h->value, h->p, (size_t)bytes);
            if (h->width < 32 && (h->value >> h->width))
                return LM_BAD_RUN;
            h->left = (int64_t)(header >> 1);
            h->p += bytes;
        }
    } while (!h->left);
    return LM_OK;
}

LM_INLINE uint32_t lm_packed_at(const lm_hybrid *h, int64_t i)
{
    uint64_t bit = (uint64_t)i * (uint64_t)h->width, byte = bit >> 3, x;
    int64_t there = h->packed_bytes - (int64_t)byte;
    if (there >= 8)
        memcpy(&x, h->packed + byte, 8);
    else
        x = lm_load_tail(h->packed + byte, there);
    return (uint32_t)((x >> (bit & 7)) & (((uint64_t)1 << h->width) - 1));
}

/* Eight values of a constant width: the compiler turns this into shifts by constants. */
LM_INLINE void lm_unpack8(const uint8_t *in, uint32_t *out, const int width)
{
    const uint64_t mask = ((uint64_t)1 << width) - 1;
    if (width <= 8) {
        uint64_t x;
        memcpy(&x, in, 8);
        for (int i = 0; i < 8; i++)
            out[i] = (uint32_t)((x >> (i * width)) & mask);
    } else {
        for (int i = 0; i < 8; i++) {
            uint64_t x;
            memcpy(&x, in + i * width / 8, 8);
            out[i] = (uint32_t)((x >> (i * width % 8)) & mask);
        }
    }
}

#define LM_UNPACK_CASE(W)                                                  \
    case W:                                                                \
        for (; done + 8 <= n && in + 8 + W <= safe; done += 8, in += W)    \
            lm_unpack8(in, out + done, W);                                 \
        break;

/* The next n values of a bit-packed run; h->at is a multiple of 8 or values are taken singly. */
static void lm_unpack(const lm_hybrid *h, int64_t n, uint32_t *out)
{
    int64_t done = 0;
    if (h->width == 0) {
        memset(out, 0, (size_t)n * 4);
        return;
    }
    if (h->at % 8 == 0) {
        const uint8_t *in = h->packed + h->at / 8 * h->width;
        const uint8_t *safe = h->packed + h->packed_bytes;
        switch (h->width) {
            LM_UNPACK_CASE(1) LM_UNPACK_CASE(2) LM_UNPACK_CASE(3) LM_UNPACK_CASE(4)
            LM_UNPACK_CASE(5) LM_UNPACK_CASE(6) LM_UNPACK_CASE(7) LM_UNPACK_CASE(8)
            LM_UNPACK_CASE(9) LM_UNPACK_CASE(10) LM_UNPACK_CASE(11) LM_UNPACK_CASE(12)
            LM_UNPACK_CASE(13) LM_UNPACK_CASE(14) LM_UNPACK_CASE(15) LM_UNPACK_CASE(16)
            LM_UNPACK_CASE(17) LM_UNPACK_CASE(18) LM_UNPACK_CASE(19) LM_UNPACK_CASE(20)
            LM_UNPACK_CASE(21) LM_UNPACK_CASE(22) LM_UNPACK_CASE(23) LM_UNPACK_CASE(24)
            LM_UNPACK_CASE(25) LM_UNPACK_CASE(26) LM_UNPACK_CASE(27) LM_UNPACK_CASE(28)
            LM_UNPACK_CASE(29) LM_UNPACK_CASE(30) LM_UNPACK_CASE(31) LM_UNPACK_CASE(32)
        }
    }
    for (; done < n; done++)
        out[done] = lm_packed_at(h, h->at + done);
}

/* Values become bytes (definition levels, answers) or 32-bit codes. */
#define LM_BLOCK 1024

/* The next n values as codes, each below `limit`. */
static int lm_hybrid_codes(lm_hybrid *h, int64_t n, uint32_t limit, uint32_t *out)
{
    while (n > 0) {
        if (!h->left) {
            int status = lm_hybrid_next(h);
            if (status)
                return status;
        }
        int64_t take = h->left < n ? h->left : n;
        if (h->packed) {
            if (take > LM_BLOCK)
                take = LM_BLOCK;
            lm_unpack(h, take, out);
            uint32_t most = 0;
            for (int64_t i = 0; i < take; i++)
                most = out[i] > most ? out[i] : most;
            if (most >= limit)
                return LM_BAD_CODE;
        } else {
            if (h->value >= limit)
                return LM_BAD_CODE;
            for (int64_t i = 0; i < take; i++)
                out[i] = h->value;
        }
        h->at += take;
        h->left -= take;
        out += take;
        n -= take;
    }
    return LM_OK;
}

/* The codes at n ascending positions, counted from where h was opened. */
static int lm_hybrid_codes_at(lm_hybrid *h, const int32_t *positions, int64_t n, uint32_t limit,
                              uint32_t *out)
{
    const uint64_t mask = ((uint64_t)1 << h->width) - 1;
    int64_t start = 0, stop = 0; /* positions of the current run */
    uint32_t most = 0;
    for (int64_t i = 0; i < n;) {
        while (positions[i] >= stop) {
            int status = lm_hybrid_next(h);
            if (status)
                return status;
            start = stop;
            stop += h->left;
        }
        if (!h->packed) {
            for (; i < n && positions[i] < stop; i++)
                out[i] = h->value;
            most = h->value > most ? h->value : most;
            continue;
        }
        /* Of values before this position, eight bytes can be read at once. */
        int64_t safe = start;
        if (h->packed_bytes >= 8 && h->width)
            safe += (h->packed_bytes - 8) * 8 / h->width;
        if (safe > stop)
            safe = stop;
        for (; i < n && positions[i] < safe; i++) {
            uint64_t bit = (uint64_t)(positions[i] - start) * (uint64_t)h->width, x;
            memcpy(&x, h->packed + (bit >> 3), 8);
            out[i] = (uint32_t)((x >> (bit & 7)) & mask);
            most = out[i] > most ? out[i] : most;
        }
        for (; i < n && positions[i] < stop; i++) {
            out[i] = lm_packed_at(h, positions[i] - start);
            most = out[i] > most ? out[i] : most;
        }
    }
    return n > 0 && most >= limit ? LM_BAD_CODE : LM_OK;
}

/* Eight answers of codes of a constant width of at most 8 bits, by a table of all such codes. */
LM_INLINE void lm_lookup8(const uint8_t *in, const uint8_t *table, uint8_t *out, const int width)
{
    const uint64_t mask = ((uint64_t)1 << width) - 1;
    uint64_t x;
    memcpy(&x, in, 8);
    for (int i = 0; i < 8; i++)
        out[i] = table[(x >> (i * width)) & mask];
}

#define LM_LOOKUP_CASE(W)                                                  \
    case W:                                                                \
        for (; done + 8 <= n && in + 8 <= safe; done += 8, in += W)        \
            lm_lookup8(in, table, out + done, W);                          \
        break;

/* Answers of the next n values of a bit-packed run of at most 8 bits, h->at a multiple of 8. */
static void lm_lookup_small(const lm_hybrid *h, int64_t n, const uint8_t *table, uint8_t *out)
{
    const uint8_t *in = h->packed + h->at / 8 * h->width;
    const uint8_t *safe = h->packed + h->packed_bytes;
    int64_t done = 0;
    switch (h->width) {
        LM_LOOKUP_CASE(1) LM_LOOKUP_CASE(2) LM_LOOKUP_CASE(3) LM_LOOKUP_CASE(4)
        LM_LOOKUP_CASE(5) LM_LOOKUP_CASE(6) LM_LOOKUP_CASE(7) LM_LOOKUP_CASE(8)
    }
    for (; done < n; done++)
        out[done] = table[lm_packed_at(h, h->at + done)];
}

/* answers[code] (0 or 1) of the next n values; a run of equal codes is one look. */
static int lm_hybrid_lookup(lm_hybrid *h, int64_t n, const uint8_t *answers, uint32_t limit,
                            uint8_t *out)
{
    uint32_t codes[LM_BLOCK];
    uint8_t table[256]; /* of small codes; 2 for those outside the dictionary */
    int is_small = h->width >= 1 && h->width <= 8;
    if (is_small) {
        uint32_t known = limit < 256 ? limit : 256;
        memset(table, 2, 256);
        memcpy(table, answers, known);
    }
    while (n > 0) {
        if (!h->left) {
            int status = lm_hybrid_next(h);
            if (status)
                return status;
        }
        int64_t take = h->left < n ? h->left : n;
        if (h->packed) {
            if (take > LM_BLOCK)
                take = LM_BLOCK;
            if (is_small && h->at % 8 == 0) {
                lm_lookup_small(h, take, table, out);
                uint8_t all = 0;
                for (int64_t i = 0; i < take; i++)
                    all |= out[i];
                if (all & 2)
                    return LM_BAD_CODE;
            } else {
                lm_unpack(h, take, codes);
                uint32_t most = 0;
                for (int64_t i = 0; i < take; i++)
                    most = codes[i] > most ? codes[i] : most;
                if (most >= limit)
                    return LM_BAD_CODE;
                for (int64_t i = 0; i < take; i++)
                    out[i] = answers[codes[i]];
            }
        } else {
            if (h->value >= limit)
                return LM_BAD_CODE;
            memset(out, answers[h->value], (size_t)take);
        }
        h->at += take;
        h->left -= take;
        out += take;
        n -= take;
    }
    return LM_OK;
}

/* Positions of eight answers (0 or 1 each; not all 0), and their codes if those are wanted. */
LM_INLINE int64_t lm_emit8(const uint8_t *answers, int32_t first, const uint32_t *values,
                           int32_t *rows, uint32_t *codes, int64_t count)
{
    for (int j = 0; j < 8; j++) {
        rows[count] = first + j;
        if (codes)
            codes[count] = values[j];
        count += answers[j];
    }
    return count;
}

#define LM_SELECT_CASE(W)                                                                   \
    case W:                                                                                 \
        for (; done + 8 <= n && in + 8 <= safe; done += 8, in += W) {                       \
            uint64_t word;                                                                  \
            lm_lookup8(in, table, eight, W);                                                \
            memcpy(&word, eight, 8);                                                        \
            if (!word)                                                                      \
                continue;                                                                   \
            if (word & 0x0202020202020202ULL)                                               \
                return LM_BAD_CODE;                                                         \
            if (codes)                                                                      \
                lm_unpack8(in, values, W);                                                  \
            *count = lm_emit8(eight, first + (int32_t)done, values, rows, codes, *count);   \
        }                                                                                   \
        break;

/* Passing positions among the next n values of a bit-packed run of at most 8 bits. */
static int lm_select_small(const lm_hybrid *h, int64_t n, const uint8_t *table, int32_t first,
                           int32_t *rows, uint32_t *codes, int64_t *count)
{
    const uint8_t *in = h->packed + h->at / 8 * h->width;
    const uint8_t *safe = h->packed + h->packed_bytes;
    uint8_t eight[8];
    uint32_t values[8];
    int64_t done = 0;
    switch (h->width) {
        LM_SELECT_CASE(1) LM_SELECT_CASE(2) LM_SELECT_CASE(3) LM_SELECT_CASE(4)
        LM_SELECT_CASE(5) LM_SELECT_CASE(6) LM_SELECT_CASE(7) LM_SELECT_CASE(8)
    }
    for (; done < n; done++) {
        uint32_t code = lm_packed_at(h, h->at + done);
        if (table[code] & 2)
            return LM_BAD_CODE;
        rows[*count] = first + (int32_t)done;
        if (codes)
            codes[*count] = code;
        *count += table[code];
    }
    return LM_OK;
}

/* Positions (counted from `first`) of those of the next n values whose answer is 1, and their
 * codes unless that is NULL. A run of equal codes is one look. Both outputs need room for n + 8. */
static int lm_hybrid_select(lm_hybrid *h, int64_t n, const uint8_t *answers, uint32_t limit,
                            int32_t first, int32_t *rows, uint32_t *codes, int64_t *found)
{
    uint32_t block[LM_BLOCK];
    uint8_t table[256]; /* of small codes; 2 for those outside the dictionary */
    int is_small = h->width >= 1 && h->width <= 8;
    int64_t count = 0;
    if (is_small) {
        memset(table, 2, 256);
        memcpy(table, answers, limit < 256 ? limit : 256);
    }
    while (n > 0) {
        if (!h->left) {
            int status = lm_hybrid_next(h);
            if (status)
                return status;
        }
        int64_t take = h->left < n ? h->left : n;
        if (!h->packed) {
            if (h->value >= limit)
                return LM_BAD_CODE;
            if (answers[h->value]) {
                for (int64_t i = 0; i < take; i++)
                    rows[count + i] = first + (int32_t)i;
                if (codes)
                    for (int64_t i = 0; i < take; i++)
                        codes[count + i] = h->value;
                count += take;
            }
        } else if (is_small && h->at % 8 == 0) {
            int status = lm_select_small(h, take, table, first, rows, codes, &count);
            if (status)
                return status;
        } else {
            if (take > LM_BLOCK)
                take = LM_BLOCK;
            lm_unpack(h, take, block);
            uint32_t most = 0;
            for (int64_t i = 0; i < take; i++)
                most = block[i] > most ? block[i] : most;
            if (most >= limit)
                return LM_BAD_CODE;
            for (int64_t i = 0; i < take; i++) {
                rows[count] = first + (int32_t)i;
                if (codes)
                    codes[count] = block[i];
                count += answers[block[i]];
            }
        }
        h->at += take;
        h->left -= take;
        first += (int32_t)take;
        n -= take;
    }
    *found = count;
    return LM_OK;
}

/* The next n values as bytes, each at most `most`; `*ones` counts those equal to it. */
static int lm_hybrid_levels(lm_hybrid *h, int64_t n, uint32_t most, uint8_t *out, int64_t *ones)
{
    uint32_t values[LM_BLOCK];
    int64_t count = 0;
    while (n > 0) {
        if (!h->left) {
            int status = lm_hybrid_next(h);
            if (status)
                return status;
        }
        int64_t take = h->left < n ? h->left : n;
        if (h->packed) {
            if (take > LM_BLOCK)
                take = LM_BLOCK;
            lm_unpack(h, take, values);
            for (int64_t i = 0; i < take; i++) {
                if (values[i] > most)
                    return LM_BAD_RUN;
                out[i] = values[i] == most;
                count += out[i];
            }
        } else {
            if (h->value > most)
                return LM_BAD_RUN;
            memset(out, h->value == most, (size_t)take);
            count += h->value == most ? take : 0;
        }
        h->at += take;
        h->left -= take;
        out += take;
        n -= take;
    }
    *ones = count;
    return LM_OK;
}

#endif
