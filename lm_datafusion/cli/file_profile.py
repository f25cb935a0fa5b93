"""What is known about one file without reading its values, by path.

In: a path. Out: what its format says; see `formats.profile`.

Invariant: nothing but metadata is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.options import ScanOptions
from lm_datafusion.scan import load_facts
from lm_datafusion.storage import LocalStorage

if TYPE_CHECKING:
    from lm_datafusion.formats.profile import FileProfile, PageProfile


def load_profile(path: str) -> FileProfile:
    """Reads the profile of a file.

    Raises:
        CorruptFileError: The file is corrupt, or of no format that is read here.
        UnsupportedFeatureError: It is encrypted.
        StorageError: It cannot be read.
    """
    storage = LocalStorage()
    facts = load_facts(storage, path, ScanOptions())
    with storage.open(facts.version) as file:
        return facts.load_profile(file)


def load_pages(path: str, column: str) -> list[PageProfile]:
    """The pages of a leaf column."""
    storage = LocalStorage()
    facts = load_facts(storage, path, ScanOptions())
    with storage.open(facts.version) as file:
        return facts.load_page_profiles(column, file)
