"""Object stores of a session: one that is registered serves DataFusion's reader and ours.

In: a scheme, a host and an obstore store. Out: DataFusion's store with the same settings, and ours.

DataFusion does not take obstore's stores, and its own show no credentials: it is given a store of
its own, made from the settings of the other.

Invariant: both readers ask the same server, with the same credentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datafusion import object_store

from lm_datafusion.errors import OptionError
from lm_datafusion.storage import storage_of_store

if TYPE_CHECKING:
    from lm_datafusion.storage import Storage

_OWN = ("AmazonS3", "GoogleCloud", "Http", "LocalFileSystem", "MicrosoftAzure")


def is_of_datafusion(store: Any) -> bool:
    """Whether a store is one of DataFusion's own, which only its reader can use."""
    return type(store).__name__ in _OWN and not hasattr(store, "config")


def store_url(scheme: str, host: str | None) -> str:
    """The URL of the objects of a registered store, without a slash at the end."""
    return f"{scheme.removesuffix('://')}://{(host or '').strip('/')}"


def adapted(store: Any) -> tuple[Any, Storage, str]:
    """DataFusion's store, ours, and the host that they belong to.

    Raises:
        OptionError: DataFusion has no such store, or cannot use its settings.
    """
    storage = storage_of_store(store)
    if getattr(store, "prefix", None):
        raise OptionError("DataFusion knows no prefix: give a store of the whole bucket")
    config = dict(getattr(store, "config", None) or {})
    client = dict(getattr(store, "client_options", None) or {})
    allow_http = str(client.get("allow_http", "")).lower() == "true"
    match type(store).__name__:
        case "S3Store":
            host = str(config["bucket"])
            names = ("region", "access_key_id", "secret_access_key", "session_token", "endpoint")
            given = {name: config[name] for name in names if name in config}
            own = object_store.AmazonS3(bucket_name=host, allow_http=allow_http, **given)
        case "GCSStore":
            host = str(config["bucket"])
            _check_known(config, {"bucket", "service_account_path", "service_account"})
            path = config.get("service_account_path") or config.get("service_account")
            own = object_store.GoogleCloud(host, service_account_path=path)
        case "AzureStore":
            host = str(config["container_name"])
            azure = {"account_name": "account", "account_key": "access_key"}
            _check_known(config, {*azure, "container_name"})
            given = {own: config[name] for name, own in azure.items() if name in config}
            own = object_store.MicrosoftAzure(host, allow_http=allow_http, **given)
        case "HTTPStore":
            url = str(store.url).rstrip("/")
            host, own = url.split("://", 1)[1], object_store.Http(url)
        case name:
            raise OptionError(f"DataFusion has no store like {name}; use lm.dataset")
    return own, storage, host


def _check_known(config: dict[str, Any], names: set[str]) -> None:
    """Refuses settings that DataFusion's store has no name for: it would ask another server."""
    unknown = sorted(set(config) - names)
    if unknown:
        raise OptionError(f"DataFusion has no setting {unknown[0]}; use lm.dataset")
