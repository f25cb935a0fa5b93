"""Methods of DataFusion's session after which a name may mean something else.

In: the class of our session. Out: the same class, whose catalog hears of every such call.

Invariant: a method that is listed nowhere here changes neither names, functions nor settings, or
`SessionContext` overrides it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import datafusion

if TYPE_CHECKING:
    from collections.abc import Callable

    from lm_datafusion.engine.session import SessionContext

# Methods after which a name or a function may mean something else.
_CHANGING = (
    "deregister_object_store",
    "deregister_table",
    "deregister_udaf",
    "deregister_udf",
    "deregister_udtf",
    "deregister_udwf",
    "enable_spark_functions",
    "create_dataframe",
    "from_arrow",
    "from_pandas",
    "from_polars",
    "from_pydict",
    "from_pylist",
    "refresh_catalogs",
    "register_arrow",
    "register_avro",
    "register_batch",
    "register_csv",
    "register_json",
    "register_object_store",
    "register_record_batches",
    "register_table",
    "register_table_factory",
    "register_table_provider",
    "register_udaf",
    "register_udf",
    "register_udtf",
    "register_udwf",
    "register_view",
    "remove_optimizer_rule",
    "add_physical_optimizer_rule",
    "set_query_planner",
    "execute_logical_plan",
)
# Those among them that change a function; without a name, any.
_FUNCTIONS = frozenset(
    {
        "deregister_udaf",
        "deregister_udf",
        "deregister_udtf",
        "deregister_udwf",
        "enable_spark_functions",
        "register_udaf",
        "register_udf",
        "register_udtf",
        "register_udwf",
    }
)
# Methods that give another handle on the same session.
_SAME_SESSION = (
    "with_extensions",
    "with_logical_extension_codec",
    "with_physical_extension_codec",
    "with_python_udf_inlining",
)


def reports_changes(session: type[SessionContext]) -> type[SessionContext]:
    """Overrides the methods above."""
    for name in _SAME_SESSION:
        setattr(session, name, _same_session(name))
    for name in _CHANGING:
        setattr(session, name, _changing(name))
    return session


def _changing(name: str) -> Callable[..., Any]:
    method = getattr(datafusion.SessionContext, name)

    @functools.wraps(method)
    def change(self: SessionContext, *arguments: Any, **settings: Any) -> Any:
        catalog = self._server.catalog
        with catalog.changing():
            if name in _FUNCTIONS:
                catalog.user_functions.add(_function_name(*arguments, **settings))
            return method(self, *arguments, **settings)

    return change


def _function_name(function: Any = "", *_: Any, **settings: Any) -> str:
    """The name in a call of a method that changes functions."""
    given = next(iter(settings.values()), function)
    return str(getattr(given, "name", given))


def _same_session(name: str) -> Callable[..., Any]:
    method = getattr(datafusion.SessionContext, name)

    @functools.wraps(method)
    def make(self: SessionContext, *arguments: Any, **settings: Any) -> SessionContext:
        made = method(self, *arguments, **settings)
        return self._handle(made, self._server)

    return make
