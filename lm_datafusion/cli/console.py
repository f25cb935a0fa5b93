"""Commands and their arguments.

In: the arguments of a command line. Out: an exit code: 0 for success, 1 for a reported failure, 2
for an invalid command line, 130 after Ctrl-C, 141 if the reader of a pipe has gone.

Invariant: the modules of a command are imported only when that command runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final, NoReturn, TextIO, get_args

from lm_datafusion import __version__
from lm_datafusion.cli.interrupt import INTERRUPTED, Interruptible
from lm_datafusion.errors import LateError
from lm_datafusion.options import AccessPath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.cli.query import QueryCommand

_ABOUT = """\
Reads Parquet and ORC files late: the columns of a filter first, the other columns only for the rows
that pass.

  lm-datafusion sql -c "SELECT url FROM 'hits.parquet' WHERE status = 500"
  lm-datafusion explain -c "SELECT url FROM 'hits.parquet' WHERE status = 500" --path late
  lm-datafusion inspect hits.parquet

`lm-datafusion COMMAND --help` says more about each command. The exit code is 0 if all went well,
1 after an error that was reported, 2 for a command line that is not understood, 130 after Ctrl-C,
141 if the reader of a pipe went away. From Python:

  import lm_datafusion as lm
  lm.dataset("hits.parquet").to_table(columns=["url"], filter="status = 500")
"""
_SQL_ABOUT = """\
Runs SQL on Parquet and ORC files, with DataFusion's SQL and its answers. A table is a file, a
folder or a glob:

  lm-datafusion sql -c "SELECT count(*) FROM 'logs/*.parquet'"
  lm-datafusion sql -t hits=hits.parquet queries/q01.sql queries/q02.sql --timing
  echo "SELECT * FROM hits LIMIT 10" | lm-datafusion sql -t hits=hits.parquet
  lm-datafusion sql -t hits=hits.parquet -c "SELECT * FROM hits" -o part.parquet
  lm-datafusion sql -c "SELECT * FROM 'hits.parquet'" --format csv | head
"""
_SQL_MORE = """\
statements
  Statements end in a semicolon and run one after the other in one session, so that a view can
  be made first and asked later. The first failure ends the run, with exit code 1.

tables
  FROM 'dir/hits.parquet' (or in double quotes) reads that path; its columns may be called
  hits.url. -t gives a table a name of your choice. Folders named key=value become columns.

formats
  table    a box; on a terminal the first 40 rows, cut to its width
  csv      a header, then text in quotes and NULL as nothing; nested values as JSON
  json     one array of objects; several results give several arrays; of columns that have
           the same name, the second becomes name_2
  ndjson   one object a line
  parquet  a file (-o) with a page index, compressed with zstd
  In csv and json, dates and timestamps are ISO 8601 and bytes are hexadecimal. In json, numbers
  have all their digits, and NaN and infinities are the texts "NaN", "Infinity", "-Infinity".
"""
_EXPLAIN_ABOUT = """\
Says what a query would read, without running it: which reader serves each table and why, the
filters in the order they would run, the row groups that are left.

  lm-datafusion explain -t hits=hits.parquet --path late -c "SELECT url FROM hits WHERE id = 7"

CREATE, DROP and SET are run, because later statements may need them.
"""
_INSPECT_ABOUT = """\
Says how a Parquet or ORC file is laid out, what of it a query can skip, what not, and why.

  lm-datafusion inspect hits.parquet
  lm-datafusion inspect hits.parquet --row-groups
  lm-datafusion inspect hits.parquet --column url --row-groups --pages
  lm-datafusion inspect logs/ --format json
"""
_INSPECT_MORE = """\
columns of the table
  stats     yes: row groups have minima and maxima that can be used
  overlap   how well these tell row groups apart: the share of the row groups whose [min, max]
            holds a value of the column that is taken at random. Sorted values give 1 in the
            number of row groups, shuffled ones near 100%. Computed from the footer, as if values
            were spread evenly between minimum and maximum.
  dict      all: every data page is dictionary-coded, so the dictionary lists all values;
            part: the dictionary grew too large and the writer went on without it
  distinct  values of the largest dictionary of a row group
  pages     yes: a page index, which lets single pages be skipped by their minima and maxima
  bloom     bytes of bloom filters, which tell for = and IN that a value is not in a row group
"""
_BROKEN_PIPE = 141  # 128 plus the number of SIGPIPE, as in shells
_QUERY_FORMATS: Final = ("table", "csv", "json", "ndjson", "parquet")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: The arguments after the program's name; by default those of this process.

    Returns:
        The exit code.
    """
    _open_closed_streams()
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help()
        return 0
    try:
        with Interruptible():
            code: int = parsed.run(parsed)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _silence(sys.stdout)
        _silence(sys.stderr)
        return _BROKEN_PIPE
    except (LateError, OSError) as error:
        _silence_if_broken(sys.stdout)
        print(f"lm-datafusion: {error}", file=sys.stderr)
        return 1
    return code


def _open_closed_streams() -> None:
    """Redirects streams that the shell has closed (`>&-`) to the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 for good


def _silence(stream: TextIO) -> None:
    """Discards what is left in a stream's buffer, also at interpreter exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # not a system stream, as in tests
        pass


def _silence_if_broken(stream: TextIO) -> None:
    try:
        stream.flush()
    except (OSError, ValueError):
        _silence(stream)


def _demo(parsed: argparse.Namespace) -> int:
    from lm_datafusion.cli.demo import run_demo

    return run_demo(rows=parsed.rows, repeats=parsed.repeats, folder=parsed.dir)


def _sql(parsed: argparse.Namespace) -> int:
    from lm_datafusion.cli.query import run_sql

    return run_sql(_query_command(parsed))


def _explain(parsed: argparse.Namespace) -> int:
    from lm_datafusion.cli.explain import run_explain

    return run_explain(_query_command(parsed))


def _inspect(parsed: argparse.Namespace) -> int:
    from lm_datafusion.cli.inspect_file import InspectCommand, run_inspect

    return run_inspect(
        InspectCommand(
            files=tuple(parsed.files),
            columns=tuple(parsed.column),
            shows_row_groups=parsed.row_groups,
            shows_pages=parsed.pages,
            format=parsed.format,
        )
    )


def _query_command(parsed: argparse.Namespace) -> QueryCommand:
    from lm_datafusion.cli.query import QueryCommand

    return QueryCommand(
        files=tuple(parsed.files),
        commands=tuple(parsed.command_text),
        tables=tuple(parsed.table),
        path=parsed.path,
        format=parsed.format,
        output=getattr(parsed, "output", None),
        max_rows=getattr(parsed, "max_rows", None),
        shows_timing=getattr(parsed, "timing", False),
        shows_reports=getattr(parsed, "reports", False),
    )


class _ShowVersion(argparse.Action):
    """Prints and exits; argparse's own version action would load the kernels every time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from lm_datafusion.kernels import kernel_info

        print(f"lm_datafusion {__version__}", kernel_info(), sep="\n")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lm-datafusion",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version",
        action=_ShowVersion,
        nargs=0,
        default=argparse.SUPPRESS,
        help="show the version, say whether compiled kernels are on, and exit",
    )
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    _add_sql(commands)
    _add_explain(commands)
    _add_inspect(commands)
    _add_demo(commands)
    return parser


def _add_sql(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sql = commands.add_parser(
        "sql",
        help="query Parquet and ORC files",
        description=_SQL_ABOUT,
        epilog=_SQL_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_sources(sql)
    sql.add_argument(
        "--format",
        choices=_QUERY_FORMATS,
        help="of the output (default: by the suffix of -o, else table)",
    )
    sql.add_argument("-o", "--output", metavar="OUT", help="write to this file")
    sql.add_argument(
        "--max-rows",
        type=_count,
        metavar="N",
        help="rows a table shows, 0 for all (default: 40 on a terminal, else all)",
    )
    sql.add_argument(
        "--timing", action="store_true", help="say how long each statement took (standard error)"
    )
    sql.add_argument(
        "--reports",
        action="store_true",
        help="say what each late scan pruned and read (standard error)",
    )
    sql.set_defaults(run=_sql)


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    explain = commands.add_parser(
        "explain",
        help="say what a query would read, and why",
        description=_EXPLAIN_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_sources(explain)
    explain.add_argument(
        "--format", choices=("text", "json"), default="text", help="of the output (default: text)"
    )
    explain.set_defaults(run=_explain)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE.sql",
        help="files of SQL, - for standard input (the default if it is a pipe)",
    )
    parser.add_argument(
        "-c",
        "--command",
        dest="command_text",
        action="append",
        default=[],
        metavar="SQL",
        help="SQL to run after the files; may be repeated",
    )
    parser.add_argument(
        "-t",
        "--table",
        action="append",
        default=[],
        type=_table,
        metavar="NAME=PATH",
        help="call a Parquet or ORC file, folder or glob NAME; may be repeated",
    )
    parser.add_argument(
        "--path",
        choices=get_args(AccessPath),
        default="auto",
        help="which reader serves the tables (default: auto); answers are the same",
    )


def _add_inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    inspect = commands.add_parser(
        "inspect",
        help="show how a Parquet or ORC file is laid out, and what can be pruned",
        description=_INSPECT_ABOUT,
        epilog=_INSPECT_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument(
        "files", nargs="+", metavar="FILE", help="Parquet or ORC files, folders or globs"
    )
    inspect.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="NAME",
        help="only this column; a.b for a field of a struct; may be repeated",
    )
    inspect.add_argument(
        "--row-groups",
        action="store_true",
        help="list row groups; with --column, the column's chunks and their bounds",
    )
    inspect.add_argument(
        "--pages",
        action="store_true",
        help="count pages of each column; with --column, list them and their bounds",
    )
    inspect.add_argument(
        "--format", choices=("table", "json"), default="table", help="default: table"
    )
    inspect.set_defaults(run=_inspect)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="write a sample Parquet file and compare four ways to query it",
        description="Writes a sample Parquet file and runs two selective queries on it with"
        " pyarrow, DataFusion and lm_datafusion. Checks that the answers are equal.",
    )
    demo.add_argument(
        "--rows", type=_positive, default=2_000_000, help="rows of the sample (default: 2000000)"
    )
    demo.add_argument(
        "--repeats", type=_positive, default=5, help="runs of each query (default: 5)"
    )
    demo.add_argument("--dir", help="keep the sample file in this folder")
    demo.set_defaults(run=_demo)


def _positive(text: str) -> int:
    """A positive integer; argparse reports anything else."""
    number = int(text.replace("_", ""))
    if number < 1:
        raise ValueError
    return number


def _count(text: str) -> int:
    """A non-negative integer."""
    number = int(text.replace("_", ""))
    if number < 0:
        raise ValueError
    return number


def _table(text: str) -> tuple[str, str]:
    """A name and a path."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise ValueError
    return name, path


# argparse names the type in its message
_positive.__name__ = "positive number"
_count.__name__ = "number"
_table.__name__ = "NAME=PATH"
