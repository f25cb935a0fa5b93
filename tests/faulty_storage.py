"""A storage on which reads fail, or something happens before them.

In: the number of a read and what happens at it. Out: the bytes of a local file, or a fault.

Reads are numbered from 0, over all files of the storage, in the order in which they begin: opening,
a fetch of ranges, the whole file for PyArrow. Kernels read by themselves where a file has a
descriptor, and through the storage where it has none; both can be had. With descriptors, asking for
one counts as the read that follows.

Invariant: without a fault, what comes out is what `LocalStorage` gives.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading

from lm_datafusion.dataset.discovery import load_table_files
from lm_datafusion.options import ScanOptions
from lm_datafusion.plan import Table
from lm_datafusion.storage import LocalStorage


def io_error(_file):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def timed_out(_file):
    raise TimeoutError("the store does not answer")


class FaultyStorage(LocalStorage):
    """Local files, read with faults.

    Args:
        faults: By the number of a read: what is called before it, with the open file or None.
        has_descriptors: Whether kernels may read by themselves.
        cut_bytes: How many bytes the reads in `short` give too few.
        short: Numbers of reads that are too short.
    """

    def __init__(self, faults=(), *, has_descriptors=False, short=(), cut_bytes=1):
        self.faults = dict(faults)
        self.has_descriptors = has_descriptors
        self.short = set(short)
        self.cut_bytes = cut_bytes
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.reads = 0

    def begin(self, file):
        with self._lock:
            number = next(self._numbers)
            self.reads = number + 1
        fault = self.faults.get(number)
        if fault is not None:
            fault(file)
        return number

    def open(self, version):
        self.begin(None)
        return FaultyFile(self, super().open(version))


class FaultyFile:
    """An open file whose reads are counted, and fail."""

    def __init__(self, storage, file):
        self._storage = storage
        self.file = file

    @property
    def version(self):
        return self.file.version

    def fetch_ranges(self, ranges):
        number = self._storage.begin(self.file)
        buffers = self.file.fetch_ranges(ranges)
        if number in self._storage.short and buffers:
            buffers[-1] = buffers[-1][: -self._storage.cut_bytes]
        return buffers

    def fetch_into(self, ranges, target):
        self._storage.begin(self.file)
        self.file.fetch_into(ranges, target)

    def descriptor(self):
        if not self._storage.has_descriptors:
            return -1
        self._storage.begin(self.file)
        return self.file.descriptor()

    def check_unchanged(self):
        self.file.check_unchanged()

    def arrow_file(self):
        self._storage.begin(self.file)
        return self.file.arrow_file()

    def close(self):
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def faulty_dataset(path, schema, storage, **options):
    """A dataset whose files are read through a storage; its schema needs no read."""
    from lm_datafusion.dataset.dataset import LateDataset

    files = load_table_files(str(path), LocalStorage())
    table = Table(storage=storage, files=files, schema=schema)
    return LateDataset(table, options=ScanOptions(**options))
