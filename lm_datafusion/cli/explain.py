"""`lm-datafusion explain`: what queries would read, in which order, and why.

In: `QueryCommand`. Out: for each query the plan of its scans, as text or JSON.

Definitions (CREATE, DROP, SET) are run, because later statements may need them; queries are not.

Invariant: only footers, indexes and a few pages are read for a query.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lm_datafusion.cli.query import load_statements
from lm_datafusion.cli.session import CommandSession, as_sql_error
from lm_datafusion.cli.statements import is_definition
from lm_datafusion.options import ScanOptions

if TYPE_CHECKING:
    from lm_datafusion.cli.query import QueryCommand


def run_explain(command: QueryCommand) -> int:
    """Explains all statements.

    Returns:
        The exit code.

    Raises:
        LateError: A statement cannot be planned.
    """
    statements = load_statements(command)
    session = CommandSession(command.tables, ScanOptions(path=command.path))
    plans: list[dict[str, Any]] = []
    for number, (label, statement) in enumerate(statements, 1):
        with as_sql_error(label):
            text = session.with_tables(statement)
            if is_definition(statement):
                session.context.sql(text).collect()
                continue
            explanation = session.context.explain_scan(text)
        if command.format == "json":
            plans.append({"statement": number, "sql": statement, "tables": explanation.to_dict()})
            continue
        if label:
            print(f"{label}: {_one_line(statement)}")
        print(explanation)
    if command.format == "json":
        print(json.dumps(plans, indent=2, ensure_ascii=False, default=str))
    return 0


def _one_line(statement: str, width: int = 80) -> str:
    line = " ".join(statement.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
