"""`python -m clickbench COMMAND`: one module per command.

A command's module has `HELP` (one line), `add_arguments(parser)` and `main(arguments) -> int`; it
is imported when it is the one that was asked for, or when help lists it.
"""

from __future__ import annotations

import argparse
import importlib
import sys

COMMANDS = ("generate", "ingest", "validate", "run", "report")


def main(words: list[str] | None = None) -> int:
    """Runs one command; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m clickbench",
        description="Data like that of ClickBench, runs of its 43 queries, and what came out.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    words = sys.argv[1:] if words is None else words
    for name in words[:1] if words and words[0] in COMMANDS else COMMANDS:
        module = importlib.import_module(f"clickbench.{name}")
        module.add_arguments(
            commands.add_parser(name, help=module.HELP, description=module.__doc__)
        )
    arguments = parser.parse_args(words)
    command = importlib.import_module(f"clickbench.{arguments.command}")
    return int(command.main(arguments))


if __name__ == "__main__":
    sys.exit(main())
