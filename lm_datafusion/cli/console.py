"""Commands and their arguments.

In: the words of a command line. Out: an exit code: 0 for success, 1 for a failure that was
reported, 2 for a command line that is not understood, 130 after Ctrl-C.

Invariant: a command's own room is imported only when that command runs.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from lm_datafusion import __version__
from lm_datafusion.errors import LateError

if TYPE_CHECKING:
    from collections.abc import Sequence

_ABOUT = """\
Reads Parquet files late: the columns of a filter first, the other columns only for the rows
that pass. From Python:

  import lm_datafusion as lm
  lm.dataset("hits.parquet").to_table(columns=["url"], filter="status = 500")
"""
_INTERRUPTED = 130  # 128 and the number of SIGINT, as shells count


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: The words after the program's name; those of this process by default.

    Returns:
        The exit code.
    """
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help()
        return 0
    try:
        return _demo(parsed)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return _INTERRUPTED
    except (LateError, OSError) as error:
        print(f"lm-datafusion: {error}", file=sys.stderr)
        return 1


def _demo(parsed: argparse.Namespace) -> int:
    from lm_datafusion.cli.demo import run_demo

    return run_demo(rows=parsed.rows, repeats=parsed.repeats, folder=parsed.dir)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lm-datafusion",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lm_datafusion {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
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
    return parser


def _positive(text: str) -> int:
    """A positive whole number; argparse reports anything else."""
    number = int(text.replace("_", ""))
    if number < 1:
        raise ValueError
    return number


_positive.__name__ = "positive number"  # argparse names the type in its message
