"""Object stores, by way of obstore.

In: URLs, byte ranges, and an obstore store or what describes one. Out: listings, versions, bytes.

A version is the ETag and the size of an object. Every range is read with `If-Match`, and the answer
is checked against the version as well, because some servers ignore the condition.

A plan contains the description of a store: its URL, endpoint and region, never a secret. Where a
plan arrives in another process, obstore finds credentials in the environment there.

Versions seen less than `FRESH_S` ago are taken as current: one LIST serves a statement. A read
notices a newer version; an answer from a cached footer or a cached small file does not.

Why the identity of the store is part of a version: two stores may hold different objects with the
same URL and ETag.

Invariant: bytes of two versions are never mixed.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import re
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lm_datafusion.errors import (
    FileChangedError,
    FileMissingError,
    OptionError,
    StorageError,
)
from lm_datafusion.forks import cached_property, hold_over_forks
from lm_datafusion.storage.io_thread import IO
from lm_datafusion.storage.kept_tails import TAILS
from lm_datafusion.storage.key_patterns import key_pattern
from lm_datafusion.storage.object_file import ObjectFile
from lm_datafusion.storage.protocol import FileVersion
from lm_datafusion.storage.reach import Reach, Traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.options import ScanOptions

FRESH_S: Final = 1.0
# More files than this are looked up by a listing.
_FEW_FILES: Final = 2
_LIST_KEYS: Final = 1000
_LIST_ATTEMPTS: Final = 5
# The tail of an object of unknown size.
_FIRST_TAIL_BYTES: Final = 256 * 1024
_SCHEMES: Final = {"s3a": "s3", "adl": "az", "azure": "az", "abfs": "az", "abfss": "az"}
# What a description of a store may hold; anything else may be a secret.
_PUBLIC_CONFIG: Final = frozenset(
    {
        "account_name",
        "bucket",
        "container_name",
        "default_region",
        "endpoint",
        "imdsv1_fallback",
        "region",
        "request_payer",
        "s3_express",
        "skip_signature",
        "unsigned_payload",
        "use_emulator",
        "use_fabric_endpoint",
        "virtual_hosted_style_request",
    }
)
_PUBLIC_CLIENT: Final = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "timeout"}
)
_NEW_TOKEN = itertools.count(1)
Pairs = tuple[tuple[str, Any], ...]


class Listed(NamedTuple):
    """An object as a store shows it; `modified_ns` as DataFusion has it."""

    version: FileVersion
    modified_ns: int


@dataclass(frozen=True, kw_only=True)
class ObjectStorage:
    """An object store, described without its secrets.

    Attributes:
        root: The URL that keys are relative to, without a slash at the end.
        config: Public settings of the store.
        client: Public settings of its HTTP client.
        retries: Settings of retries, if the store is made from this description.
        token: Says which store of this process it is, if one was given.
    """

    root: str
    config: Pairs = ()
    client: Pairs = ()
    retries: Pairs = ()
    token: str = ""

    @classmethod
    def of_url(cls, url: str, options: ScanOptions | None = None) -> ObjectStorage:
        """The store of a URL, with credentials from the environment."""
        scheme, _, rest = url.partition("://")
        scheme = _SCHEMES.get(scheme, scheme)
        host = rest.split("/", 1)[0]
        _check_no_password(host)
        if scheme not in ("s3", "gs", "az", "http", "https") or not host:
            raise OptionError(
                f"{url}: give the store as storage=..., or a URL that begins with s3://, az://,"
                " gs://, https:// or file://"
            )
        _obstore()
        retries: Pairs = ()
        client: Pairs = ()
        if options is not None:
            retries = (
                ("max_retries", options.request_retries),
                ("retry_timeout_s", options.retry_timeout_s),
            )
            client = (("timeout", f"{options.request_timeout_s:g}s"),)
        client = (*client, *_client_of_environment(scheme))
        return cls(root=f"{scheme}://{host}", client=client, retries=retries)

    @classmethod
    def of_store(cls, store: Any) -> ObjectStorage:
        """A given obstore store.

        Raises:
            OptionError: It is none.
        """
        stores = _obstore().store
        prefix = str(getattr(store, "prefix", None) or "").strip("/")
        config = dict(getattr(store, "config", None) or {})
        if isinstance(store, stores.S3Store):
            root = f"s3://{config['bucket']}"
        elif isinstance(store, stores.GCSStore):
            root = f"gs://{config['bucket']}"
        elif isinstance(store, stores.AzureStore):
            root = f"az://{config['container_name']}"
        elif isinstance(store, stores.HTTPStore):
            root, prefix = str(store.url).rstrip("/"), ""
        elif isinstance(store, stores.MemoryStore):
            root, prefix = "memory://", ""
        elif isinstance(store, stores.LocalStore):
            root = "file://"
            prefix = f"/{prefix}" if prefix else ""
        else:
            raise OptionError(f"storage is an obstore store, not a {type(store).__name__}")
        for address in (root, str(config.get("endpoint", ""))):
            _check_no_password(address.partition("://")[2].split("/", 1)[0])
        client = dict(getattr(store, "client_options", None) or {})
        known = _runtime_of(store)
        made = cls(
            root=root.removesuffix("/") + (f"/{prefix}" if prefix else ""),
            config=_public(config, _PUBLIC_CONFIG),
            client=_public(client, _PUBLIC_CLIENT),
            token=_new_token() if known is None else known.token,
        )
        made.__dict__["_runtime"] = known or _remember(made, store)
        return made

    # ---- paths -----------------------------------------------------------------------------

    def full_path(self, path: str) -> str:
        """The URL of a path, which may be a key of the store.

        Raises:
            OptionError: It is a URL of another store.
        """
        if "://" not in path:
            return f"{self.root}/{path.lstrip('/')}"
        scheme, _, rest = path.partition("://")
        path = f"{_SCHEMES.get(scheme, scheme)}://{rest}"
        if self.root == "memory:/":
            return f"memory://{rest.lstrip('/')}" if scheme == "memory" else self._refuse(path)
        if path != self.root and not path.startswith(self.root + "/"):
            self._refuse(path)
        return path

    def _refuse(self, path: str) -> str:
        raise OptionError(f"{path} is not in {self.root}: a table has one store")

    def _key(self, path: str) -> str:
        return path.removeprefix(self.root).strip("/")

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}"

    # ---- what there is ---------------------------------------------------------------------

    @property
    def is_remote(self) -> bool:
        """Whether a read takes a request."""
        return True

    @property
    def reach(self) -> Reach:
        """Latency and bandwidth, as measured in this process."""
        return self._runtime.reach

    @property
    def store(self) -> Any:
        """The obstore store."""
        return self._runtime.store

    @cached_property
    def _runtime(self) -> _Runtime:
        """What this process has of the store."""
        return _RUNTIMES.get(self._description) or _remember(self, _make_store(self))

    @property
    def _description(self) -> tuple[Any, ...]:
        """What says which store it is in this process, by description and environment."""
        given = (self.root, self.config, self.client, self.retries, self.token)
        if self.token:
            return given
        prefix = _VARIABLES.get(self.root.split(":")[0], "no such variable")
        return *given, tuple(sorted(v for v in os.environ.items() if v[0].startswith(prefix)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_runtime"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def load_version(self, path: str, traffic: Traffic | None = None) -> FileVersion:
        """The current version of an object; its tail is kept, so that the footer is at hand."""
        seen = self._fresh(path)
        if seen is not None:
            return seen.version
        traffic = traffic or Traffic()
        with IO.held(), traffic.waiting():
            return IO.submit(self._look_up(path, traffic)).result().version

    def load_versions(
        self, paths: Sequence[str], traffic: Traffic | None = None
    ) -> list[FileVersion]:
        """The current versions of objects: a listing if there are many.

        Raises:
            FileMissingError: One does not exist.
        """
        return [found.version for found in self._load_current(paths, traffic or Traffic())]

    def _load_current(self, paths: Sequence[str], traffic: Traffic) -> list[Listed]:
        known = {path: self._fresh(path) for path in paths}
        stale = [path for path, found in known.items() if found is None]
        if len(stale) > _FEW_FILES and not self.root.startswith("http"):
            folder = _common_folder([self._key(path) for path in stale])
            listed = {entry.version.path: entry for entry in self._list(folder, traffic)}
            known |= {path: listed.get(path) for path in stale}
        else:
            for path in stale:
                with IO.held(), traffic.waiting():
                    known[path] = IO.submit(self._look_up(path, traffic)).result()
        found = [entry for path in paths if (entry := known[path]) is not None]
        if len(found) < len(paths):
            missing = next(path for path in paths if known[path] is None)
            self._runtime.seen.pop(missing, None)
            raise FileMissingError(f"no file at {missing}")
        return found

    def load_times(self, paths: Sequence[str]) -> list[tuple[FileVersion, int]]:
        """The versions of objects, each with the time of its last change in nanoseconds."""
        current = self._load_current(paths, Traffic())
        return [(found.version, found.modified_ns) for found in current]

    def load_listing(self, path: str, traffic: Traffic | None = None) -> list[str]:
        """Every object below a folder, sorted; skips names that begin with . or _."""
        folder = self._key(path)
        depth = len(folder) + 1 if folder else 0
        found = []
        for listed in self._list(folder, traffic or Traffic()):
            inner = self._key(listed.version.path)[depth:]
            if not any(part.startswith((".", "_")) for part in inner.split("/")):
                found.append(listed.version.path)
        return sorted(found)

    def is_folder(self, path: str) -> bool:
        """Whether objects lie below a path; a name with an extension is looked up first."""
        key = self._key(path)
        if not key or path.endswith("/"):
            return True
        if _MAGIC.search(key):
            return False
        if "." in key.rsplit("/", 1)[-1] or self.root.startswith("http"):
            try:
                self.load_version(path)
            except FileMissingError:
                if self.root.startswith("http"):
                    raise
            else:
                return False
        listed = self._list(key, Traffic())
        # Whoever asks reads the listing next.
        self._runtime.listing = (time.monotonic(), key, listed)
        return bool(listed)

    def expand_glob(self, pattern: str) -> list[str]:
        """The objects that match a pattern, sorted; `**` crosses folders."""
        key = self._key(pattern)
        fixed = list(itertools.takewhile(lambda part: not _MAGIC.search(part), key.split("/")))
        matches = key_pattern(key).fullmatch
        listed = self._list("/".join(fixed), Traffic())
        return sorted(f.version.path for f in listed if matches(self._key(f.version.path)))

    def open(self, version: FileVersion) -> ObjectFile:
        """Opens exactly this version; the first read checks that it is still there."""
        return ObjectFile(self, version)

    # ---- requests --------------------------------------------------------------------------

    async def fetch(
        self, version: FileVersion, offset: int, stop: int, traffic: Traffic
    ) -> memoryview:
        """Bytes of a version.

        Raises:
            FileChangedError: The object has another version.
            StorageError: It cannot be read.
        """
        etag = _etag(version)
        wanted: dict[str, Any] = {"range": (offset, stop)}
        if etag and not etag.startswith("W/"):
            wanted["if_match"] = f'"{etag}"'
        _, data = await self._get(version.path, wanted, traffic, version)
        if len(data) != stop - offset:
            raise StorageError(f"{version.path}: a read gave fewer bytes than asked for")
        return data

    async def _get(
        self,
        path: str,
        wanted: dict[str, Any],
        traffic: Traffic,
        version: FileVersion | None = None,
    ) -> tuple[Listed, memoryview]:
        runtime = self._runtime
        started = time.perf_counter()
        traffic.requests += 1
        try:
            answer = await _obstore().get_async(runtime.store, self._key(path), options=wanted)
        except Exception as error:
            runtime.seen.pop(path, None)
            raise _error(path, error) from error
        listed = self._note(answer.meta)
        if version is not None and listed.version != version:
            runtime.seen.pop(path, None)
            raise FileChangedError(f"{path} changed after it was planned for")
        runtime.reach.begin_body(time.perf_counter() - started)
        size = 0
        try:
            data = memoryview(await answer.bytes_async()).cast("B")
            size = len(data)
        except Exception as error:
            raise _error(path, error) from error
        finally:
            runtime.reach.end_body(size)
        traffic.bytes_fetched += len(data)
        return listed, data

    async def _look_up(self, path: str, traffic: Traffic) -> Listed:
        """An object with its tail, in one request where the store can give the end of one."""
        if not self.root.startswith("az:"):
            try:
                listed, data = await self._get(
                    path, {"range": {"suffix": _FIRST_TAIL_BYTES}}, traffic
                )
            except StorageError as error:
                if not _is_about_range(error.__cause__):
                    raise
            else:
                start = listed.version.size_bytes - len(data)
                if start >= 0:
                    TAILS.keep(listed.version, start, data)
                    return listed
        traffic.requests += 1
        try:
            meta = await _obstore().head_async(self._runtime.store, self._key(path))
        except Exception as error:
            raise _error(path, error) from error
        return self._note(meta)

    def _list(self, folder: str, traffic: Traffic) -> list[Listed]:
        """Every object below a folder: a request per thousand."""
        (when, known, listed), self._runtime.listing = self._runtime.listing, _NO_LISTING
        if listed and known == folder and time.monotonic() - when < FRESH_S:
            return listed
        for attempt in range(_LIST_ATTEMPTS):
            with traffic.waiting():
                try:
                    return self._listed(folder, traffic)
                except Exception as error:
                    # obstore repeats requests, but no listing whose body is cut.
                    if "body" not in str(error) or attempt == _LIST_ATTEMPTS - 1:
                        raise _error(self._path(folder), error) from error
        return []

    def _listed(self, folder: str, traffic: Traffic) -> list[Listed]:
        IO.check_process()
        found: list[Listed] = []
        traffic.requests += 1
        pages = _obstore().list(self.store, prefix=folder or None, chunk_size=_LIST_KEYS)
        for number, page in enumerate(pages):
            traffic.requests += number > 0
            found += [self._note(meta) for meta in page]
        return found

    def _note(self, meta: Any) -> Listed:
        etag = (meta["e_tag"] or "").removeprefix('"').removesuffix('"')
        modified: dt.datetime = meta["last_modified"]
        since = modified - _EPOCH
        modified_ns = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
        if not etag and not modified_ns:
            raise StorageError(
                f"{self._path(meta['path'])}: the server gives neither an ETag nor a time of"
                " change, so versions of the file cannot be told apart"
            )
        tag = f"{self._identity} {etag or modified_ns}"
        version = FileVersion(self._path(meta["path"]), int(meta["size"]), tag)
        listed = Listed(version, modified_ns)
        seen = self._runtime.seen
        if len(seen) > _MOST_SEEN:
            seen.clear()
        seen[version.path] = (time.monotonic(), listed)
        return listed

    def _fresh(self, path: str) -> Listed | None:
        when, listed = self._runtime.seen.get(path, (0.0, None))
        return listed if listed is not None and time.monotonic() - when < FRESH_S else None

    @property
    def _identity(self) -> str:
        """What tells stores with the same URL apart; the same in every process, where it can be."""
        if self.root.startswith(("memory:", "file:")):
            return self.token
        return str(dict(self.config).get("endpoint", ""))

    def forget(self) -> None:
        """Looks at the store again for the next version, however fresh."""
        self._runtime.seen.clear()
        self._runtime.listing = _NO_LISTING


_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MOST_SEEN: Final = 1 << 20
_DENIED: Final = re.compile(r"status code: 40[13]\b")
_MAGIC: Final = re.compile(r"[*?\[]")


_NO_LISTING: Final[tuple[float, str, list[Listed]]] = (0.0, "", [])


@dataclass(slots=True, weakref_slot=True)
class _Runtime:
    """What a process has of a store."""

    store: Any
    token: str
    reach: Reach = field(default_factory=Reach)
    seen: dict[str, tuple[float, Any]] = field(default_factory=dict)
    # A listing that nobody has used yet.
    listing: tuple[float, str, list[Listed]] = _NO_LISTING


# By description. A given store is forgotten with the last storage that has it; a store that is made
# from a URL is kept with its connections.
_RUNTIMES: weakref.WeakValueDictionary[Any, _Runtime] = weakref.WeakValueDictionary()
_KEPT: list[_Runtime] = []
_LOCK = threading.Lock()
hold_over_forks(_LOCK)


def _new_token() -> str:
    """A text that no other store of any process has."""
    return f"{os.getpid()}-{time.time_ns()}-{next(_NEW_TOKEN)}"


def _remember(storage: ObjectStorage, store: Any) -> _Runtime:
    with _LOCK:
        found = _RUNTIMES.setdefault(storage._description, _Runtime(store, storage.token))  # noqa: SLF001
        if not storage.token:
            _KEPT.append(found)
        return found


def _runtime_of(store: Any) -> _Runtime | None:
    """That of a store which was given before."""
    with _LOCK:
        return next((found for found in _RUNTIMES.values() if found.store is store), None)


def _obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise OptionError(
            "object stores need obstore: pip install lm-datafusion[object-store]"
        ) from error
    return obstore


def _make_store(storage: ObjectStorage) -> Any:
    """A store from its description, with credentials from the environment."""
    stores = _obstore().store
    settings: dict[str, Any] = {"client_options": dict(storage.client) or None}
    retries = dict(storage.retries)
    if retries:
        settings["retry_config"] = {
            "max_retries": retries["max_retries"],
            "retry_timeout": dt.timedelta(seconds=retries["retry_timeout_s"]),
        }
    config = {key: value for key, value in storage.config if key not in _IN_URL}
    try:
        if storage.root.startswith("http"):
            return stores.HTTPStore.from_url(storage.root, **settings)
        return stores.from_url(storage.root, config=config or None, **settings)
    except Exception as error:
        raise OptionError(f"{storage.root}: {_first_line(error)}") from error


_VARIABLES: Final = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}
_IN_URL: Final = frozenset({"bucket", "container_name"})


def _client_of_environment(scheme: str) -> Pairs:
    """Settings of the HTTP client in the environment: obstore reads them only if none are given."""
    if scheme in _VARIABLES:
        names = {name: f"{_VARIABLES[scheme]}_{name.upper()}" for name in sorted(_PUBLIC_CLIENT)}
        return tuple(
            (name, os.environ[variable])
            for name, variable in names.items()
            if name != "timeout" and variable in os.environ
        )
    return (("allow_http", "true"),) if scheme == "http" else ()


def _check_no_password(host: str) -> None:
    """Raises `OptionError` if a host has a user: descriptions and errors would repeat it."""
    if "@" in host:
        raise OptionError("a URL with a user or password: give the store as storage=...")


def _public(settings: dict[str, Any], names: frozenset[str]) -> Pairs:
    return tuple(sorted((key, value) for key, value in settings.items() if key in names))


def _etag(version: FileVersion) -> str:
    return version.tag.partition(" ")[2]


def _error(path: str, error: Exception) -> StorageError:
    """An error of obstore as one of ours."""
    kinds = _obstore().exceptions
    if isinstance(error, StorageError):
        return error
    if isinstance(error, FileNotFoundError | kinds.NotFoundError):
        return FileMissingError(f"no file at {path}")
    if isinstance(error, kinds.PreconditionError):
        return FileChangedError(f"{path} changed after it was planned for")
    is_denied = isinstance(error, kinds.PermissionDeniedError | kinds.UnauthenticatedError)
    if is_denied or _DENIED.search(str(error)):  # a listing has no class for it
        return StorageError(f"{path}: access is denied: {_first_line(error)}")
    return StorageError(f"{path}: {_first_line(error)}")


def _is_about_range(error: BaseException | None) -> bool:
    """Whether a store could not give the end of an object: it is empty, or no store gives it."""
    kinds = _obstore().exceptions
    if isinstance(error, kinds.NotSupportedError):
        return True
    return isinstance(error, kinds.GenericError) and (
        "range" in str(error).lower() or "416" in str(error)
    )


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].strip()


def _common_folder(keys: Sequence[str]) -> str:
    folders = [key.split("/")[:-1] for key in keys]
    shared = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "/".join(shared)
