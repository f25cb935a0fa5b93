"""Where bytes come from.

In: paths and byte ranges. Out: bytes, and the version of the file they came from.

Invariant: only `fetch_` and `load_` methods touch storage; a file that is not the planned version
is an error, and versions are never mixed.
"""

from __future__ import annotations

from lm_datafusion.storage.lazy import LazyFile
from lm_datafusion.storage.local import LocalFile, LocalStorage
from lm_datafusion.storage.metered import MeteredFile
from lm_datafusion.storage.protocol import FileVersion, OpenFile, Storage
from lm_datafusion.storage.ranges import ByteRange, coalesce

__all__ = [
    "ByteRange",
    "FileVersion",
    "LazyFile",
    "LocalFile",
    "LocalStorage",
    "MeteredFile",
    "OpenFile",
    "Storage",
    "coalesce",
]
