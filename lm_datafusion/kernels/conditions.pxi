# Conditions on one stored value.
#
# In: values as a page stores them. Out: one byte each, 1 where the condition holds.


cdef class ValueTest:
    """A condition on one stored value."""

    cdef int test(self, const uint8_t* values, const uint8_t* end, int64_t value_count,
                  const int32_t* positions, int64_t n, uint8_t* mask) noexcept nogil:
        """Answers for the values at positions, or (NULL) for the first n."""
        return LM_BAD_RUN


cdef class IntTest(ValueTest):
    """A comparison with a literal, or membership in a list, of integers.

    Args:
        integer_type: One of the numbers of `INTEGER_TYPES`.
        operator: One of the numbers of `OPERATORS`.
        literal: What values are compared with, its bits as a signed number.
        members: Values of a list, sorted; then there is no operator.
        is_negated: Whether values that match do not pass.
    """

    cdef lm_int_test _test
    cdef int64_t[::1] _members
    cdef int64_t _width

    def __cinit__(self, int integer_type, int operator, int64_t literal, members=None,
                  bint is_negated=False):
        self._test.type = integer_type
        self._test.operator_ = operator
        self._test.literal = literal
        self._test.pass_ = not is_negated
        self._test.members = NULL
        self._test.member_count = 0
        self._width = 8 if integer_type in (3, 7) else 4
        if members is not None:
            self._members = np.ascontiguousarray(members, dtype=np.int64)
            self._test.member_count = self._members.shape[0]
            if not self._test.member_count:
                raise ValueError("a list of no values")
            self._test.members = &self._members[0]

    cdef int test(self, const uint8_t* values, const uint8_t* end, int64_t value_count,
                  const int32_t* positions, int64_t n, uint8_t* mask) noexcept nogil:
        if end - values < value_count * self._width:
            return LM_SHORT
        lm_test_ints(&self._test, values, positions, n, mask)
        return LM_OK


cdef class TextTest(ValueTest):
    """A condition on the bytes of a value.

    Args:
        kind: `TEXT_LIKE`, `TEXT_IN`, `TEXT_LENGTH` or `TEXT_ORDER`.
        parts: LIKE: what stands between the % signs, in order; IN: the values; ORDER: the literal.
        operator: Of LENGTH and ORDER, one of the numbers of `OPERATORS`.
        length: Of LENGTH.
        is_anchored_left: LIKE: whether the first part begins the value.
        is_anchored_right: LIKE: whether the last part ends it.
        is_negated: Whether values that match do not pass.
    """

    cdef lm_text_test _test
    cdef object _parts
    cdef object _slices

    def __cinit__(self, int kind, parts=(), *, int operator=0, int64_t length=0,
                  bint is_anchored_left=False, bint is_anchored_right=False, bint is_negated=False):
        cdef lm_slice* slices
        cdef Py_ssize_t i
        cdef bytes part
        self._parts = [bytes(part) for part in parts]
        self._slices = bytearray(max(1, len(self._parts)) * sizeof(lm_slice))
        slices = <lm_slice*><char*>self._slices
        for i in range(len(self._parts)):
            part = self._parts[i]
            slices[i].bytes = <const uint8_t*><const char*>part
            slices[i].length = len(part)
        self._test.kind = kind
        self._test.operator_ = operator
        self._test.length = length
        self._test.slices = slices
        self._test.slice_count = len(self._parts)
        self._test.is_anchored_left = is_anchored_left
        self._test.is_anchored_right = is_anchored_right
        self._test.pass_ = not is_negated

    cdef int test(self, const uint8_t* values, const uint8_t* end, int64_t value_count,
                  const int32_t* positions, int64_t n, uint8_t* mask) noexcept nogil:
        if positions == NULL:
            return lm_test_page(&self._test, values, end, n, mask)
        return lm_test_values(&self._test, values, end, value_count, positions, n, mask)


cdef class AllTest(ValueTest):
    """Several conditions that a value has to meet together."""

    cdef ValueTest _first
    cdef ValueTest _rest

    def __cinit__(self, ValueTest first not None, ValueTest rest not None):
        self._first, self._rest = first, rest

    cdef int test(self, const uint8_t* values, const uint8_t* end, int64_t value_count,
                  const int32_t* positions, int64_t n, uint8_t* mask) noexcept nogil:
        cdef uint8_t* other = <uint8_t*>malloc(<size_t>n + 1)
        cdef int64_t i
        cdef int status
        if other == NULL:
            return LM_TOO_LONG
        status = self._first.test(values, end, value_count, positions, n, mask)
        if not status:
            status = self._rest.test(values, end, value_count, positions, n, other)
        if not status:
            for i in range(n):
                mask[i] &= other[i]
        free(other)
        return status
