"""Where bytes come from.

In: paths or URLs, and byte ranges. Out: bytes, and the version of the file they came from.

Invariant: only `fetch_` and `load_` methods touch storage; a file that is not the planned version
is an error, and versions are never mixed.
"""

from __future__ import annotations

from lm_datafusion.storage.io_thread import IO
from lm_datafusion.storage.lazy import LazyFile
from lm_datafusion.storage.local import LocalFile, LocalStorage
from lm_datafusion.storage.locations import (
    find_storage,
    is_remote_url,
    storage_of_store,
    store_of_url,
)
from lm_datafusion.storage.metered import MeteredFile
from lm_datafusion.storage.object_file import ObjectFile, Round
from lm_datafusion.storage.protocol import FileVersion, OpenFile, Storage
from lm_datafusion.storage.ranges import ByteRange, coalesce
from lm_datafusion.storage.reach import Traffic

__all__ = [
    "IO",
    "ByteRange",
    "FileVersion",
    "LazyFile",
    "LocalFile",
    "LocalStorage",
    "MeteredFile",
    "ObjectFile",
    "OpenFile",
    "Round",
    "Storage",
    "Traffic",
    "coalesce",
    "find_storage",
    "is_remote_url",
    "storage_of_store",
    "store_of_url",
]
