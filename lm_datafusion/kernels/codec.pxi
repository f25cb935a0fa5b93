# Codecs that run without Python's lock.


cdef class Codec:
    """Decompresses pages in C: Snappy, or Zstandard where its library was found.

    A Zstandard context is kept from page to page, so a codec is for one thread at a time.

    Args:
        zstd: Addresses of `ZSTD_createDCtx`, `ZSTD_freeDCtx` and `ZSTD_decompressDCtx`; None for
            Snappy.
    """

    def __cinit__(self, zstd=None):
        cdef zstd_create create
        self._context = NULL
        self._zstd = NULL
        if zstd is not None:
            create = <zstd_create><size_t>zstd[0]
            self._free = <zstd_free><size_t>zstd[1]
            self._zstd = <zstd_decompress><size_t>zstd[2]
            self._context = create()
            if self._context == NULL:
                raise MemoryError

    def __dealloc__(self):
        if self._context != NULL:
            self._free(self._context)

    cdef int decompress(self, const uint8_t* packed, int64_t length, uint8_t* out,
                        int64_t size) noexcept nogil:
        """0 if the bytes came to exactly the size asked for."""
        if self._zstd == NULL:
            return lm_snappy(packed, length, out, size)
        # An error is a size that no page has.
        return self._zstd(self._context, out, <size_t>size, packed, <size_t>length) != <size_t>size

    def __call__(self, buffer, int64_t size):
        """A decompressed `pyarrow.Buffer`.

        Raises:
            PageError: The bytes do not come to so many.
        """
        cdef const uint8_t* data = <const uint8_t*><size_t>buffer.address
        cdef int64_t length = buffer.size
        cdef int status
        found = allocate_buffer(size)
        cdef uint8_t* out = <uint8_t*><size_t>found.address
        with nogil:
            status = self.decompress(data, length, out, size)
        if status:
            raise PageError(f"the page does not decompress to {size} bytes")
        return found


def measure_lz4(buffer):
    """How many bytes an LZ4 block holds; -1 if it is none."""
    cdef _Bytes held = _Bytes(buffer)
    cdef int64_t size
    with nogil:
        size = lm_lz4_size(<const uint8_t*>held.view.buf, held.view.len)
    return size
