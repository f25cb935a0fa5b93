/* Byte ranges of an open file, one behind the other. */
#ifndef LM_SOURCE_H
#define LM_SOURCE_H

#include <stdint.h>

#ifdef _WIN32
/* There is no pread: whoever called reads the ranges itself. */
static int lm_fetch(int descriptor, const int64_t *ranges, int64_t count, uint8_t *out)
{
    return -1;
}
#else
#include <errno.h>
#include <unistd.h>

/* 0 if every byte of the (offset, length) pairs was read, else -1. */
static int lm_fetch(int descriptor, const int64_t *ranges, int64_t count, uint8_t *out)
{
    if (descriptor < 0)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        int64_t offset = ranges[2 * i], left = ranges[2 * i + 1];
        while (left > 0) {
            ssize_t done = pread(descriptor, out, (size_t)left, (off_t)offset);
            if (done < 0 && errno == EINTR)
                continue;
            if (done <= 0)
                return -1;
            out += done;
            offset += done;
            left -= done;
        }
    }
    return 0;
}
#endif

#endif
