/* Values of a fixed width: gathered for the rows wanted, or compared in place.
 *
 * INT32 columns of 8 and 16 bits are narrowed on the way, decimals are widened to 16 bytes.
 */
#ifndef LM_FIXED_H
#define LM_FIXED_H

#include "text.h"

enum { LM_INT8, LM_INT16, LM_INT32, LM_INT64, LM_UINT8, LM_UINT16, LM_UINT32, LM_UINT64 };

/* positions == NULL: the first n values. */
#define LM_GATHER(NAME, STORED, GIVEN)                                                        \
    static void NAME(const uint8_t *values, const int32_t *positions, int64_t n, void *out_)  \
    {                                                                                         \
        GIVEN *out = out_;                                                                    \
        if (positions)                                                                        \
            for (int64_t i = 0; i < n; i++) {                                                 \
                STORED x;                                                                     \
                memcpy(&x, values + (int64_t)positions[i] * (int64_t)sizeof x, sizeof x);     \
                out[i] = (GIVEN)x;                                                            \
            }                                                                                 \
        else                                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                 \
                STORED x;                                                                     \
                memcpy(&x, values + i * (int64_t)sizeof x, sizeof x);                         \
                out[i] = (GIVEN)x;                                                            \
            }                                                                                 \
    }
LM_GATHER(lm_gather_4_to_1, uint32_t, uint8_t)
LM_GATHER(lm_gather_4_to_2, uint32_t, uint16_t)
LM_GATHER(lm_gather_4, uint32_t, uint32_t)
LM_GATHER(lm_gather_8, uint64_t, uint64_t)
LM_GATHER(lm_gather_4_to_16, int32_t, __int128)
LM_GATHER(lm_gather_8_to_16, int64_t, __int128)

static void lm_gather_bytes(const uint8_t *values, const int32_t *positions, int64_t n,
                            int64_t width, uint8_t *out)
{
    if (!positions) {
        memcpy(out, values, (size_t)(n * width));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i * width, values + (int64_t)positions[i] * width, (size_t)width);
}

static int lm_gather(const uint8_t *values, const int32_t *positions, int64_t n, int64_t stored,
                     int64_t given, void *out)
{
    if (stored == 4 && given == 4)
        lm_gather_4(values, positions, n, out);
    else if (stored == 8 && given == 8)
        lm_gather_8(values, positions, n, out);
    else if (stored == given)
        lm_gather_bytes(values, positions, n, stored, out);
    else if (stored == 4 && given == 2)
        lm_gather_4_to_2(values, positions, n, out);
    else if (stored == 4 && given == 1)
        lm_gather_4_to_1(values, positions, n, out);
    else if (stored == 4 && given == 16)
        lm_gather_4_to_16(values, positions, n, out);
    else if (stored == 8 && given == 16)
        lm_gather_8_to_16(values, positions, n, out);
    else
        return LM_BAD_LENGTH;
    return LM_OK;
}

/* Entries of a table of fixed width, by code; codes were checked. */
#define LM_TAKE(NAME, TYPE)                                                                   \
    static void NAME(const void *table_, const uint32_t *codes, int64_t n, void *out_)        \
    {                                                                                         \
        const TYPE *table = table_;                                                           \
        TYPE *out = out_;                                                                     \
        for (int64_t i = 0; i < n; i++)                                                       \
            out[i] = table[codes[i]];                                                         \
    }
LM_TAKE(lm_take8, uint8_t)
LM_TAKE(lm_take16, uint16_t)
LM_TAKE(lm_take32, uint32_t)
LM_TAKE(lm_take64, uint64_t)

static void lm_take(const uint8_t *table, const uint32_t *codes, int64_t n, int64_t width,
                    uint8_t *out)
{
    switch (width) {
    case 1: lm_take8(table, codes, n, out); break;
    case 2: lm_take16(table, codes, n, out); break;
    case 4: lm_take32(table, codes, n, out); break;
    case 8: lm_take64(table, codes, n, out); break;
    case 16:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + i * 16, table + (int64_t)codes[i] * 16, 16);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + i * width, table + (int64_t)codes[i] * width, (size_t)width);
    }
}

/* Comparisons. IN is a sorted list of 64-bit keys. */
typedef struct {
    int type;
    int operator_;
    int64_t literal;
    const int64_t *members; /* of IN, ascending; NULL for a comparison */
    int64_t member_count;
    uint8_t pass;
} lm_int_test;

#define LM_COMPARE_LOOP(OP)                                                                   \
    if (positions)                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                     \
            STORED_ x;                                                                        \
            memcpy(&x, values + (int64_t)positions[i] * (int64_t)sizeof x, sizeof x);         \
            mask[i] = (uint8_t)(((TYPE_)x OP literal) ? pass : 1 - pass);                     \
        }                                                                                     \
    else                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                     \
            STORED_ x;                                                                        \
            memcpy(&x, values + i * (int64_t)sizeof x, sizeof x);                             \
            mask[i] = (uint8_t)(((TYPE_)x OP literal) ? pass : 1 - pass);                     \
        }

#define LM_COMPARE_BODY                                                                       \
    const TYPE_ literal = (TYPE_)test->literal;                                               \
    const uint8_t pass = test->pass;                                                          \
    switch (test->operator_) {                                                                \
    case LM_EQ: LM_COMPARE_LOOP(==) break;                                                    \
    case LM_NE: LM_COMPARE_LOOP(!=) break;                                                    \
    case LM_LT: LM_COMPARE_LOOP(<) break;                                                     \
    case LM_LE: LM_COMPARE_LOOP(<=) break;                                                    \
    case LM_GT: LM_COMPARE_LOOP(>) break;                                                     \
    default: LM_COMPARE_LOOP(>=) break;                                                       \
    }

#define LM_COMPARE_FUNCTION(NAME)                                                             \
    static void NAME(const lm_int_test *test, const uint8_t *values, const int32_t *positions, \
                     int64_t n, uint8_t *mask)                                                \
    {                                                                                         \
        LM_COMPARE_BODY                                                                       \
    }

#define STORED_ uint32_t
#define TYPE_ int8_t
LM_COMPARE_FUNCTION(lm_compare_i8)
#undef TYPE_
#define TYPE_ int16_t
LM_COMPARE_FUNCTION(lm_compare_i16)
#undef TYPE_
#define TYPE_ int32_t
LM_COMPARE_FUNCTION(lm_compare_i32)
#undef TYPE_
#define TYPE_ uint8_t
LM_COMPARE_FUNCTION(lm_compare_u8)
#undef TYPE_
#define TYPE_ uint16_t
LM_COMPARE_FUNCTION(lm_compare_u16)
#undef TYPE_
#define TYPE_ uint32_t
LM_COMPARE_FUNCTION(lm_compare_u32)
#undef TYPE_
#undef STORED_
#define STORED_ uint64_t
#define TYPE_ int64_t
LM_COMPARE_FUNCTION(lm_compare_i64)
#undef TYPE_
#define TYPE_ uint64_t
LM_COMPARE_FUNCTION(lm_compare_u64)
#undef TYPE_
#undef STORED_

static int64_t lm_int_key(int type, const uint8_t *p)
{
    uint32_t x;
    int64_t y;
    if (type == LM_INT64 || type == LM_UINT64) {
        memcpy(&y, p, 8);
        return y;
    }
    memcpy(&x, p, 4);
    switch (type) {
    case LM_INT8: return (int8_t)x;
    case LM_INT16: return (int16_t)x;
    case LM_INT32: return (int32_t)x;
    case LM_UINT8: return (uint8_t)x;
    case LM_UINT16: return (uint16_t)x;
    default: return x;
    }
}

static void lm_test_members(const lm_int_test *test, const uint8_t *values,
                            const int32_t *positions, int64_t n, int64_t width, uint8_t *mask)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t key = lm_int_key(test->type, values + (positions ? positions[i] : i) * width);
        int64_t low = 0, high = test->member_count;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (test->members[middle] < key)
                low = middle + 1;
            else
                high = middle;
        }
        int found = low < test->member_count && test->members[low] == key;
        mask[i] = (uint8_t)(found ? test->pass : 1 - test->pass);
    }
}

static void lm_test_ints(const lm_int_test *test, const uint8_t *values, const int32_t *positions,
                         int64_t n, uint8_t *mask)
{
    int is_wide = test->type == LM_INT64 || test->type == LM_UINT64;
    if (test->members) {
        lm_test_members(test, values, positions, n, is_wide ? 8 : 4, mask);
        return;
    }
    switch (test->type) {
    case LM_INT8: lm_compare_i8(test, values, positions, n, mask); break;
    case LM_INT16: lm_compare_i16(test, values, positions, n, mask); break;
    case LM_INT32: lm_compare_i32(test, values, positions, n, mask); break;
    case LM_INT64: lm_compare_i64(test, values, positions, n, mask); break;
    case LM_UINT8: lm_compare_u8(test, values, positions, n, mask); break;
    case LM_UINT16: lm_compare_u16(test, values, positions, n, mask); break;
    case LM_UINT32: lm_compare_u32(test, values, positions, n, mask); break;
    default: lm_compare_u64(test, values, positions, n, mask); break;
    }
}

#endif
