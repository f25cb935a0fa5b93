"""Which storage a path belongs to.

In: paths or URLs, and perhaps an obstore store. Out: a storage, and the paths as it takes them.

`s3://`, `az://`, `gs://`, `http://` and `https://` are object stores; `file://` and paths without a
scheme are local files. obstore is imported when there is an object store.

Invariant: all paths of a table belong to one storage.
"""

from __future__ import annotations

import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

from lm_datafusion.errors import OptionError
from lm_datafusion.storage.local import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.options import ScanOptions
    from lm_datafusion.storage.protocol import Storage


def is_url(path: str) -> bool:
    """Whether a path has a scheme."""
    return "://" in path


def is_remote_url(path: str) -> bool:
    """Whether a path is a URL that is not of a local file."""
    return is_url(path) and not path.startswith("file://")


def local_path(path: str) -> str:
    """The path of a local file, given as such or as a URL."""
    if not path.startswith("file://"):
        return path
    return urllib.request.url2pathname(urllib.parse.urlsplit(path).path)


def storage_of_store(store: Any) -> Storage:
    """The storage of an obstore store.

    Raises:
        OptionError: It is none.
    """
    from lm_datafusion.storage.object_store import ObjectStorage

    return ObjectStorage.of_store(store)


def store_of_url(url: str) -> Any:
    """The obstore store of a URL, with credentials from the environment."""
    from lm_datafusion.storage.object_store import ObjectStorage

    return ObjectStorage.of_url(url).store


def find_storage(
    paths: Sequence[str], given: Any = None, options: ScanOptions | None = None
) -> tuple[Storage, list[str]]:
    """The storage of some paths, and the paths as it takes them.

    Args:
        paths: Paths or URLs. With a given store, paths without a scheme are keys of it.
        given: An obstore store, or a storage; by default URLs say where to look, and credentials
            come from the environment.
        options: Limits of requests, for a store that is made from a URL.

    Raises:
        OptionError: The paths belong to several storages, or the extra `object-store` is missing.
    """
    if isinstance(given, LocalStorage):
        return given, [local_path(path) for path in paths]
    if given is None and not any(map(is_remote_url, paths)):
        return LocalStorage(), [local_path(path) for path in paths]
    from lm_datafusion.storage.object_store import ObjectStorage

    if isinstance(given, ObjectStorage):
        storage = given
    elif given is not None:
        storage = ObjectStorage.of_store(given)
    else:
        local = [path for path in paths if not is_remote_url(path)]
        if local:
            raise OptionError(
                f"{local[0]} is a local file, other paths are not: a table has one store"
            )
        storage = ObjectStorage.of_url(paths[0], options)
    return storage, [storage.full_path(path) for path in paths]
