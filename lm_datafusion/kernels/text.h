/* BYTE_ARRAY values in PLAIN pages: each a 4-byte length and its bytes.
 *
 * In: the values of a page and a condition. Out: a mask, or where values begin and how long they are.
 *
 * A search goes over the bytes of the page as they stand. Only where it hits, the lengths are walked
 * to find the value, and a hit that reaches over the end of a value is none.
 *
 * Invariant: a length is never followed outside the page.
 */
#ifndef LM_TEXT_H
#define LM_TEXT_H

#include "find.h"
#include "utf8.h"
#include <stdlib.h>

/* From one wanted value in so many on, a page is searched as a whole. */
#define LM_SEARCH_SHARE 32

typedef struct { const uint8_t *bytes; int64_t length; } lm_slice;

enum { LM_TEXT_LIKE, LM_TEXT_IN, LM_TEXT_LENGTH, LM_TEXT_ORDER };
enum { LM_EQ, LM_NE, LM_LT, LM_LE, LM_GT, LM_GE };

typedef struct {
    int kind;
    int operator_;           /* of LENGTH and ORDER */
    int64_t length;          /* of LENGTH */
    const lm_slice *slices;  /* LIKE: the parts between the % signs; IN: values; ORDER: one */
    int64_t slice_count;
    int is_anchored_left, is_anchored_right; /* LIKE: no % before the first, behind the last part */
    uint8_t pass;            /* the answer for values that match; others get 1 - pass */
} lm_text_test;

/* The order of two lengths; their difference may not fit. */
LM_INLINE int64_t lm_order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

LM_INLINE int lm_compare(int64_t order, int operator_)
{
    switch (operator_) {
    case LM_EQ: return order == 0;
    case LM_NE: return order != 0;
    case LM_LT: return order < 0;
    case LM_LE: return order <= 0;
    case LM_GT: return order > 0;
    default: return order >= 0;
    }
}

static int lm_like(const lm_text_test *test, const uint8_t *p, int64_t n)
{
    const lm_slice *part = test->slices;
    int64_t left = test->slice_count;
    if (!left && test->is_anchored_left)
        return n == 0; /* the empty pattern */
    if (test->is_anchored_left && left) {
        if (n < part->length || memcmp(p, part->bytes, (size_t)part->length))
            return 0;
        if (left == 1 && test->is_anchored_right)
            return n == part->length;
        p += part->length;
        n -= part->length;
        part++;
        left--;
    }
    if (test->is_anchored_right && left) {
        const lm_slice *last = part + left - 1;
        if (n < last->length || memcmp(p + n - last->length, last->bytes, (size_t)last->length))
            return 0;
        n -= last->length;
        left--;
    }
    for (; left; part++, left--) {
        const uint8_t *found = lm_find(p, n, part->bytes, part->length);
        if (!found)
            return 0;
        found += part->length;
        n -= found - p;
        p = found;
    }
    return 1;
}

LM_INLINE int lm_text_matches(const lm_text_test *test, const uint8_t *p, int64_t n)
{
    switch (test->kind) {
    case LM_TEXT_LENGTH:
        return lm_compare(lm_order(n, test->length), test->operator_);
    case LM_TEXT_IN:
        for (int64_t i = 0; i < test->slice_count; i++)
            if (test->slices[i].length == n && !memcmp(test->slices[i].bytes, p, (size_t)n))
                return 1;
        return 0;
    case LM_TEXT_ORDER: {
        int64_t k = test->slices[0].length;
        int order = memcmp(p, test->slices[0].bytes, (size_t)(n < k ? n : k));
        return lm_compare(order ? order : n - k, test->operator_);
    }
    default:
        return lm_like(test, p, n);
    }
}

/* Reads the length at q; q + 4 + length does not go beyond the end. */
LM_INLINE int lm_length_at(const uint8_t *q, const uint8_t *end, int64_t *length)
{
    uint32_t n;
    if (end - q < 4)
        return LM_BAD_LENGTH;
    memcpy(&n, q, 4);
    if ((int64_t)n > end - q - 4)
        return LM_BAD_LENGTH;
    *length = (int64_t)n;
    return LM_OK;
}

/* The part of a condition that a search over the page looks for; NULL if values have to be walked. */
static const lm_slice *lm_needle(const lm_text_test *test)
{
    if (test->kind != LM_TEXT_LIKE)
        return NULL;
    const lm_slice *longest = NULL;
    for (int64_t i = 0; i < test->slice_count; i++)
        if (!longest || test->slices[i].length > longest->length)
            longest = &test->slices[i];
    return longest && longest->length ? longest : NULL;
}

static int lm_search_page(const lm_text_test *test, const lm_slice *needle, const uint8_t *q,
                          const uint8_t *end, int64_t n, uint8_t *mask)
{
    /* One part between % signs: a hit inside a value is a match. */
    int is_hit_enough =
        test->slice_count == 1 && !test->is_anchored_left && !test->is_anchored_right;
    int64_t row = 0, length;
    const uint8_t *hit = lm_find(q, end - q, needle->bytes, needle->length);
    memset(mask, 1 - test->pass, (size_t)n);
    while (hit) {
        /* Walk to the value that holds, or follows, the hit. */
        for (;;) {
            if (row == n)
                return LM_OK; /* the page has bytes behind its last value */
            int status = lm_length_at(q, end, &length);
            if (status)
                return status;
            if (q + 4 + length > hit)
                break;
            q += 4 + length;
            row++;
        }
        const uint8_t *value = q + 4;
        if (hit >= value && hit + needle->length <= value + length) {
            if (is_hit_enough || lm_like(test, value, length))
                mask[row] = test->pass;
            q = value + length;
            row++;
            hit = lm_find(q, end - q, needle->bytes, needle->length);
        } else {
            hit = lm_find(hit + 1, end - hit - 1, needle->bytes, needle->length);
        }
    }
    return LM_OK;
}

/* The first eight bytes of a value as a number that sorts as they do; zeros behind a short one. */
LM_INLINE uint64_t lm_prefix(const uint8_t *p, int64_t n, const uint8_t *end)
{
    uint64_t bytes = 0;
    if (end - p >= 8)
        memcpy(&bytes, p, 8);
    else
        memcpy(&bytes, p, (size_t)(n < 8 ? n : 8));
    bytes = __builtin_bswap64(bytes);
    if (n < 8)
        bytes = n > 0 ? bytes & (~(uint64_t)0 << (64 - 8 * n)) : 0;
    return bytes;
}

/* `<`, `>=` and the like: most values differ from the literal in their first bytes. */
static int lm_test_page_order(const lm_text_test *test, const uint8_t *q, const uint8_t *end,
                              int64_t n, uint8_t *mask)
{
    const lm_slice *literal = test->slices;
    uint64_t key = lm_prefix(literal->bytes, literal->length, literal->bytes + literal->length);
    uint8_t pass = test->pass;
    uint8_t below = (uint8_t)(lm_compare(-1, test->operator_) ? pass : 1 - pass);
    uint8_t above = (uint8_t)(lm_compare(1, test->operator_) ? pass : 1 - pass);
    for (int64_t i = 0; i < n; i++) {
        int64_t length;
        int status = lm_length_at(q, end, &length);
        if (status)
            return status;
        uint64_t mine = lm_prefix(q + 4, length, end);
        if (mine != key)
            mask[i] = mine < key ? below : above;
        else
            mask[i] = (uint8_t)(lm_text_matches(test, q + 4, length) ? pass : 1 - pass);
        q += 4 + length;
    }
    return LM_OK;
}

/* Answers for all n values of a page. */
static int lm_test_page(const lm_text_test *test, const uint8_t *q, const uint8_t *end, int64_t n,
                        uint8_t *mask)
{
    const lm_slice *needle = lm_needle(test);
    if (needle)
        return lm_search_page(test, needle, q, end, n, mask);
    uint8_t pass = test->pass;
    if (test->kind == LM_TEXT_LENGTH) {
        /* `<> ''` and the like, without a call per value. */
        int operator_ = test->operator_;
        for (int64_t i = 0; i < n; i++) {
            int64_t length;
            int status = lm_length_at(q, end, &length);
            if (status)
                return status;
            mask[i] = (uint8_t)(lm_compare(lm_order(length, test->length), operator_) ? pass : 1 - pass);
            q += 4 + length;
        }
        return LM_OK;
    }
    if (test->kind == LM_TEXT_ORDER)
        return lm_test_page_order(test, q, end, n, mask);
    for (int64_t i = 0; i < n; i++) {
        int64_t length;
        int status = lm_length_at(q, end, &length);
        if (status)
            return status;
        mask[i] = (uint8_t)(lm_text_matches(test, q + 4, length) ? pass : 1 - pass);
        q += 4 + length;
    }
    return LM_OK;
}

/* Answers for the values at k ascending positions, out of n. */
static int lm_test_values(const lm_text_test *test, const uint8_t *q, const uint8_t *end, int64_t n,
                          const int32_t *positions, int64_t k, uint8_t *mask)
{
    int64_t row = 0, length;
    const lm_slice *needle = lm_needle(test);
    if (needle && k * LM_SEARCH_SHARE >= n) {
        /* To search all of the page is faster than to walk from value to value. */
        uint8_t *every = malloc((size_t)n + 1);
        if (every) {
            int status = lm_search_page(test, needle, q, end, n, every);
            if (!status)
                for (int64_t i = 0; i < k; i++)
                    mask[i] = every[positions[i]];
            free(every);
            return status;
        }
    }
    for (int64_t i = 0; i < k; i++) {
        for (;; row++) {
            int status = lm_length_at(q, end, &length);
            if (status)
                return status;
            if (row == positions[i])
                break;
            q += 4 + length;
        }
        mask[i] = (uint8_t)(lm_text_matches(test, q + 4, length) ? test->pass : 1 - test->pass);
    }
    return LM_OK;
}

/* Where values begin and how long they are: all n of a page, or those at n ascending positions. */
static int lm_locate(const uint8_t *page, const uint8_t *end, const int32_t *positions, int64_t n,
                     uint32_t *starts, uint32_t *lengths, int64_t *total, int64_t *total_long)
{
    const uint8_t *q = page;
    int64_t row = 0, sum = 0, sum_long = 0, length;
    for (int64_t i = 0; i < n; i++) {
        for (;; row++) {
            int status = lm_length_at(q, end, &length);
            if (status)
                return status;
            if (!positions || row == positions[i])
                break;
            q += 4 + length;
        }
        starts[i] = (uint32_t)(q + 4 - page);
        lengths[i] = (uint32_t)length;
        sum += length;
        sum_long += length > 12 ? length : 0;
        q += 4 + length;
        row++;
    }
    *total = sum;
    *total_long = sum_long;
    return LM_OK;
}

static int lm_check_utf8(const uint8_t *page, const uint32_t *starts, const uint32_t *lengths,
                         int64_t n, int64_t *bad)
{
    for (int64_t i = 0; i < n; i++)
        if (!lm_utf8_is_valid(page + starts[i], lengths[i])) {
            *bad = i;
            return LM_BAD_UTF8;
        }
    return LM_OK;
}

/* Arrow's views: 16 bytes a value. Short values are in the view, long ones in a buffer. */
typedef struct { uint32_t length; union { uint8_t inlined[12];
    struct { uint8_t prefix[4]; uint32_t buffer; uint32_t offset; } at; } u; } lm_view;

LM_INLINE void lm_make_view(lm_view *view, const uint8_t *bytes, uint32_t length, uint32_t buffer,
                            uint32_t offset)
{
    view->length = length;
    if (length <= 12) {
        memset(view->u.inlined, 0, 12);
        memcpy(view->u.inlined, bytes, length);
    } else {
        memcpy(view->u.at.prefix, bytes, 4);
        view->u.at.buffer = buffer;
        view->u.at.offset = offset;
    }
}

/* Views that point into the page. */
static void lm_views_into(const uint8_t *page, const uint32_t *starts, const uint32_t *lengths,
                          int64_t n, uint32_t buffer, lm_view *out)
{
    for (int64_t i = 0; i < n; i++)
        lm_make_view(out + i, page + starts[i], lengths[i], buffer, starts[i]);
}

/* Lets views that point into buffer 0 point into another one. */
static void lm_rebase_views(lm_view *views, int64_t n, uint32_t buffer)
{
    for (int64_t i = 0; i < n; i++)
        if (views[i].length > 12)
            views[i].u.at.buffer = buffer;
}

/* Views of copies: long values go to `data`, which has room, from `offset` of its buffer on. */
static void lm_views_copied(const uint8_t *page, const uint32_t *starts, const uint32_t *lengths,
                            int64_t n, uint32_t buffer, uint8_t *data, uint32_t offset, lm_view *out)
{
    for (int64_t i = 0; i < n; i++) {
        lm_make_view(out + i, page + starts[i], lengths[i], buffer, offset);
        if (lengths[i] > 12) {
            memcpy(data + offset, page + starts[i], lengths[i]);
            offset += lengths[i];
        }
    }
}

/* Values one behind the other, and where each ends, counted from `at`. */
static void lm_copy_values(const uint8_t *page, const uint32_t *starts, const uint32_t *lengths,
                           int64_t n, uint8_t *data, int64_t at, int32_t *ends)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(data + at, page + starts[i], lengths[i]);
        at += lengths[i];
        ends[i] = (int32_t)at;
    }
}

#endif
