"""Methods of DataFusion's session after which a name may mean something else.

In: the class of our session. Out: the same class, whose catalog hears of every such call.

Invariant: a public method changes names, functions or settings unless it is listed here, or
`SessionContext` overrides it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import datafusion

if TYPE_CHECKING:
    from collections.abc import Callable

    from lm_datafusion.engine.session import SessionContext

# Methods that change nothing of the session, or call one that does.
_READING = """
    catalog_names copied_config create_dataframe_from_logical_plan empty_table
    enable_ident_normalization execute logical_extension_codec_ids parse_capacity_limit
    parse_sql_expr physical_extension_codec_ids read_arrow read_avro read_batch read_batches
    read_csv read_empty read_json read_table session_id session_start_time sql_with_options
    table_exist table_provider udaf udafs udf udfs udwf udwfs
""".split()
# Methods after which names may change without a call of the session.
_SHARING = ("register_catalog_provider", "register_catalog_provider_list")
# Methods that give another handle on the same session.
_SAME_SESSION = """
    with_extensions with_logical_extension_codec with_physical_extension_codec
    with_python_udf_inlining
""".split()


def reports_changes(session: type[SessionContext]) -> type[SessionContext]:
    """Overrides methods of DataFusion's."""
    for name, method in vars(datafusion.SessionContext).items():
        if name in _SAME_SESSION:
            setattr(session, name, _same_session(method))
        elif not name.startswith("_") and name not in {*vars(session), *_READING}:
            setattr(session, name, _changing(name, method))
    return session


def _changing(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    changes_functions = "register_ud" in name or name == "enable_spark_functions"

    @functools.wraps(method)
    def change(self: SessionContext, *arguments: Any, **settings: Any) -> Any:
        catalog = self._server.catalog
        if name in _SHARING:
            catalog.share()
        with catalog.changing():
            if changes_functions:
                given = next(iter(settings.values()), arguments[0] if arguments else "")
                # Without a name, any function may have changed.
                catalog.user_functions.add(str(getattr(given, "name", given)))
            return method(self, *arguments, **settings)

    return change


def _same_session(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def make(self: SessionContext, *arguments: Any, **settings: Any) -> SessionContext:
        return self._handle(method(self, *arguments, **settings), self._server)

    return make
