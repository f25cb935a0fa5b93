/* Rows and masks: which rows of a page are wanted, which of them are left.
 *
 * In: masks of one byte per row (0 or 1), ascending row numbers. Out: row numbers, ranks.
 */
#ifndef LM_ROWS_H
#define LM_ROWS_H

#include "hybrid.h"

/* rows[i] (or first + i) of every mask[i] that is set; how many those are. */
static int64_t lm_compress_rows(const uint8_t *mask, int64_t n, const int32_t *rows, int32_t first,
                                int32_t *out)
{
    int64_t count = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, mask + i, 8);
        if (!word)
            continue;
        if (rows)
            for (int j = 0; j < 8; j++) {
                out[count] = rows[i + j];
                count += mask[i + j];
            }
        else
            for (int j = 0; j < 8; j++) {
                out[count] = first + (int32_t)(i + j);
                count += mask[i + j];
            }
    }
    for (; i < n; i++)
        if (mask[i])
            out[count++] = rows ? rows[i] : first + (int32_t)i;
    return count;
}

static int64_t lm_count_mask(const uint8_t *mask, int64_t n)
{
    int64_t count = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, mask + i, 8);
        count += (int64_t)((word * 0x0101010101010101ULL) >> 56);
    }
    for (; i < n; i++)
        count += mask[i];
    return count;
}

/* Of wanted rows of a page: whether each has a value, and the ranks of those that have.
 * `valid` is about all rows of the page; `rows` are wanted ones less `first`, or NULL for all. */
static int64_t lm_rank_rows(const uint8_t *valid, const int32_t *rows, int64_t n, int32_t first,
                            int32_t *ranks, uint8_t *wanted_valid)
{
    int64_t count = 0, rank = 0, at = 0;
    if (!rows) {
        /* rows [first, first + n) of the page */
        rank = lm_count_mask(valid, first);
        for (int64_t i = 0; i < n; i++) {
            uint8_t is_valid = valid[first + i];
            wanted_valid[i] = is_valid;
            ranks[count] = (int32_t)rank;
            count += is_valid;
            rank += is_valid;
        }
        return count;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t row = rows[i] - first;
        if (row > at) {
            rank += lm_count_mask(valid + at, row - at);
            at = row;
        }
        uint8_t is_valid = valid[row];
        wanted_valid[i] = is_valid;
        ranks[count] = (int32_t)rank;
        count += is_valid;
    }
    return count;
}

/* Spreads answers of the rows that have a value over all n rows, in place, from the back. */
static void lm_spread_mask(uint8_t *mask, int64_t dense, const uint8_t *valid, int64_t n,
                           uint8_t null_answer)
{
    for (int64_t i = n - 1; i >= 0; i--)
        mask[i] = valid[i] ? mask[--dense] : null_answer;
}

#define LM_SPREAD(NAME, TYPE)                                                             \
    static void NAME(TYPE *values, int64_t dense, const uint8_t *valid, int64_t n)        \
    {                                                                                     \
        for (int64_t i = n - 1; i >= 0; i--) {                                            \
            if (valid[i])                                                                 \
                values[i] = values[--dense];                                              \
            else                                                                          \
                memset(&values[i], 0, sizeof(TYPE));                                      \
        }                                                                                 \
    }
typedef struct { uint64_t a, b; } lm_pair;
LM_SPREAD(lm_spread8, uint8_t)
LM_SPREAD(lm_spread16, uint16_t)
LM_SPREAD(lm_spread32, uint32_t)
LM_SPREAD(lm_spread64, uint64_t)
LM_SPREAD(lm_spread128, lm_pair)

static void lm_spread_bytes(uint8_t *values, int64_t dense, const uint8_t *valid, int64_t n,
                            int64_t width)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        if (valid[i])
            memmove(values + i * width, values + (--dense) * width, (size_t)width);
        else
            memset(values + i * width, 0, (size_t)width);
    }
}

static void lm_spread(void *values, int64_t dense, const uint8_t *valid, int64_t n, int64_t width)
{
    switch (width) {
    case 1: lm_spread8(values, dense, valid, n); break;
    case 2: lm_spread16(values, dense, valid, n); break;
    case 4: lm_spread32(values, dense, valid, n); break;
    case 8: lm_spread64(values, dense, valid, n); break;
    case 16: lm_spread128(values, dense, valid, n); break;
    default: lm_spread_bytes(values, dense, valid, n, width);
    }
}

/* Bytes of 0 or 1 into the bits [at, at + n) of a bitmap whose later bits are zero. */
static void lm_set_bits(uint8_t *bitmap, int64_t at, const uint8_t *bytes, int64_t n)
{
    int64_t i = 0;
    for (; i < n && (at + i) % 8; i++)
        bitmap[(at + i) / 8] |= (uint8_t)(bytes[i] << ((at + i) % 8));
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        bitmap[(at + i) / 8] = (uint8_t)((word * 0x0102040810204080ULL) >> 56);
    }
    for (; i < n; i++)
        bitmap[(at + i) / 8] |= (uint8_t)(bytes[i] << ((at + i) % 8));
}

#endif
