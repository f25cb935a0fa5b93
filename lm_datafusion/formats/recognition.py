"""Which format a file has.

In: an open file, or a path. Out: the facts of its format, or the format that its name claims.

A name that ends as files of a format do is believed: a file that is something else is then
reported as a corrupt one. Of any other file the first bytes decide; if they say nothing, it is
taken for Parquet, whose reader says what is wrong with it.

Invariant: a format's modules are imported when a file of it is opened, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lm_datafusion.formats.names import ORC, PARQUET, SUFFIXES
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    from lm_datafusion.formats.protocol import FileFacts
    from lm_datafusion.storage import OpenFile

_ORC_MAGIC: Final = b"ORC"


def claimed_format(path: str) -> str | None:
    """The format that the name of a file claims; None if it claims none."""
    for name, suffixes in SUFFIXES.items():
        if path.endswith(suffixes):
            return name
    return None


def load_file_facts(file: OpenFile) -> FileFacts:
    """Reads what the end of a file says about it.

    Raises:
        CorruptFileError: It is not a file of its format.
        UnsupportedFeatureError: It is encrypted, or not a table.
    """
    if (claimed_format(file.version.path) or _found_format(file)) == ORC:
        from lm_datafusion.formats.orc.file_facts import load_orc_facts

        return load_orc_facts(file)
    from lm_datafusion.formats.parquet.facts import load_parquet_facts

    return load_parquet_facts(file)


def _found_format(file: OpenFile) -> str:
    length = len(_ORC_MAGIC)
    if file.version.size_bytes < length:
        return PARQUET
    (head,) = file.fetch_ranges([ByteRange(0, length)])
    return ORC if head == _ORC_MAGIC else PARQUET
