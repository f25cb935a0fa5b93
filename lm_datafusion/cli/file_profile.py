"""What is known about one file without reading its values, by path.

In: a path or a URL. Out: what its format says; see `formats.profile`.

Invariant: nothing but metadata is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.options import ScanOptions
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import find_storage

if TYPE_CHECKING:
    from lm_datafusion.formats.profile import FileProfile, PageProfile
    from lm_datafusion.formats.protocol import FileFacts
    from lm_datafusion.storage import Storage


def load_profile(path: str) -> FileProfile:
    """Reads the profile of a file.

    Raises:
        CorruptFileError: The file is corrupt, or of no format that is read here.
        UnsupportedFeatureError: It is encrypted.
        StorageError: It cannot be read.
    """
    facts, storage = _loaded(path)
    with storage.open(facts.version) as file:
        return facts.load_profile(file)


def load_pages(path: str, column: str) -> list[PageProfile]:
    """The pages of a leaf column."""
    facts, storage = _loaded(path)
    with storage.open(facts.version) as file:
        return facts.load_page_profiles(column, file)


def _loaded(path: str) -> tuple[FileFacts, Storage]:
    storage, (found,) = find_storage([path])
    return load_facts(storage, found, ScanOptions()), storage
