"""The floor plan, held over `ast`: which room may import which, and which library has which door.

Each rule is a function from source text (or paths) to a list of complaints. The package must
draw none, and a made-up offence must draw one, so that no rule is silently dead.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "lm_datafusion"
ROOT = Path(__file__).resolve().parents[2]

# A module imports its own room and rooms of lines above it. Rooms on one line are neighbours
# and do not know each other.
ORDER = (
    ("errors", "forks", "protobuf"),
    ("options", "metrics", "kernels"),
    ("storage", "predicate", "selection"),
    ("pruning",),
    ("formats",),
    ("plan",),
    ("scan",),
    ("sql",),
    ("dataset",),
    ("engine",),
    ("spark",),
    ("cli",),
)
# The same inside `scan/`; its own modules come last.
SCAN_ORDER = ("memory", "keys", "pruning", "planning", "reading", "top_k")
# The same in `engine/`, from what a table is to the session; modules on one line are neighbours.
ENGINE_ORDER = (
    ("parquet_table", "recovery", "cost", "plan_cache", "watch", "frame"),
    ("dataset_table", "store_table", "object_stores"),
    ("catalog", "shape", "offer", "footer_concurrency", "factory", "session_methods"),
    ("query", "sibling", "paths"),
    ("choose", "explain"),
    ("server",),
    ("session",),
)
# The face of the package: it may import every room. Only the last room may import it.
FACE = ("__init__", "__main__")
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}

# Where a library may be imported: whole rooms end in a slash.
DOORS = {
    "sqlglot": ("sql/",),
    "datafusion": (
        "predicate/evaluator.py",
        "engine/",
        # The demo compares us with plain DataFusion, which must not pass through our own door.
        "cli/demo.py",
    ),
    "pyspark": ("spark/",),
    "pyarrow._parquet": ("formats/parquet/footer.py",),
    "pyarrow.orc": ("formats/orc/decode.py",),
    "obstore": ("storage/object_store.py",),
    "xxhash": ("formats/parquet/bloom_filter.py",),
}
# Where a library may be imported for type checking only.
TYPE_DOORS = {"datafusion": ("predicate/",)}

MAX_LINES = 600
HOMELESS_NAMES = {"utils", "helpers", "common", "core", "base", "misc"}
# Folders at the root of somebody's machine. Written apart from their slashes, so that this file
# does not name one.
MACHINE_FOLDERS = ("home", "Users", "root", "work", "tmp", "opt", "mnt", "srv", "private")
MACHINE_PATH = re.compile(rf"(?:(?<=//)|(?<![\w./*-]))/(?:{'|'.join(MACHINE_FOLDERS)})\b(?![-.]\w)")


@dataclass(frozen=True)
class Imported:
    module: str
    line: int
    is_for_types: bool


class ImportCollector(ast.NodeVisitor):
    """Every imported module; `from a import b` counts as `a` and as `a.b`."""

    def __init__(self):
        self.found: list[Imported] = []
        self._is_for_types = False

    def visit_If(self, node):
        outer = self._is_for_types
        self._is_for_types = outer or ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body:
            self.visit(statement)
        self._is_for_types = outer
        for statement in node.orelse:
            self.visit(statement)

    def visit_Import(self, node):
        self.found += [Imported(a.name, node.lineno, self._is_for_types) for a in node.names]

    def visit_ImportFrom(self, node):
        module = "." * node.level + (node.module or "")
        names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        self.found += [Imported(name, node.lineno, self._is_for_types) for name in names]


def imports_of(source: str) -> list[Imported]:
    collector = ImportCollector()
    collector.visit(ast.parse(source))
    return collector.found


def is_within(module: str, library: str) -> bool:
    return module == library or module.startswith(library + ".")


def room_of(path: str) -> str:
    """The room of a module; `path` is relative to the package."""
    return path.split("/", maxsplit=1)[0].removesuffix(".py")


def order_complaints(path: str, source: str) -> list[str]:
    room = room_of(path)
    if room in FACE:
        return []
    if room not in LEVELS:
        return [f"{path} is in no room of the floor plan; add {room!r} to ORDER"]
    complaints = []
    for imported in imports_of(source):
        if not is_within(imported.module, PACKAGE):
            continue
        other = imported.module.removeprefix(PACKAGE).lstrip(".").split(".")[0]
        if other == room:
            continue
        if other in LEVELS:
            is_allowed = LEVELS[other] < LEVELS[room]
        else:
            is_allowed = LEVELS[room] == len(ORDER) - 1
        if not is_allowed:
            complaints.append(f"{path}:{imported.line} imports {imported.module}")
    return complaints


def engine_complaints(path: str, source: str) -> list[str]:
    """Modules of `engine/` import those of lines before them; for types, any."""
    parts = path.removesuffix(".py").split("/")
    if parts[0] != "engine" or parts[-1] == "__init__":
        return []
    levels = {name: level for level, names in enumerate(ENGINE_ORDER) for name in names}
    if parts[1] not in levels:
        return [f"{path} is nowhere in the flow of a query; add {parts[1]!r} to ENGINE_ORDER"]
    prefix = f"{PACKAGE}.engine."
    others = [i for i in imports_of(source) if i.module.startswith(prefix) and not i.is_for_types]
    return [
        f"{path}:{imported.line} imports {imported.module}"
        for imported in others
        if levels[imported.module.removeprefix(prefix).split(".")[0]] >= levels[parts[1]]
    ]


def scan_complaints(path: str, source: str) -> list[str]:
    """Sub-rooms of `scan/` import those before them; for types, any."""
    parts = path.split("/")
    if parts[0] != "scan" or len(parts) < 3:
        return []
    if parts[1] not in SCAN_ORDER:
        return [f"{path} is in no sub-room of scan; add {parts[1]!r} to SCAN_ORDER"]
    allowed = [f"{PACKAGE}.scan.{room}" for room in SCAN_ORDER[: SCAN_ORDER.index(parts[1]) + 1]]
    return [
        f"{path}:{imported.line} imports {imported.module}"
        for imported in imports_of(source)
        if is_within(imported.module, f"{PACKAGE}.scan")
        and not imported.is_for_types
        and not any(is_within(imported.module, room) for room in allowed)
    ]


def formats() -> list[str]:
    """The modules of the formats: the folders of `formats/`."""
    folders = (ROOT / PACKAGE / "formats").iterdir()
    return [f"{PACKAGE}.formats.{p.name}" for p in sorted(folders) if (p / "__init__.py").exists()]


def format_complaints(path: str, source: str) -> list[str]:
    """Formats never import each other, nor what knows them all."""
    parts = path.split("/")
    if parts[0] != "formats" or len(parts) < 3:
        return []
    above = [f"{PACKAGE}.formats.{name}" for name in ("cache", "recognition")]
    others = [name for name in formats() if name != f"{PACKAGE}.formats.{parts[1]}"]
    return [
        f"{path}:{imported.line} imports {imported.module}"
        for imported in imports_of(source)
        if any(is_within(imported.module, name) for name in [*above, *others])
    ]


def format_name_complaints(path: str, source: str) -> list[str]:
    """Only `formats/` knows which formats there are."""
    if room_of(path) == "formats":
        return []
    return sorted(
        {
            f"{path}:{imported.line} imports {imported.module}"
            for imported in imports_of(source)
            if any(is_within(imported.module, name) for name in formats())
        }
    )


def door_complaints(path: str, source: str) -> list[str]:
    complaints = []
    for imported in imports_of(source):
        for library, doors in DOORS.items():
            if not is_within(imported.module, library):
                continue
            allowed = doors + (TYPE_DOORS.get(library, ()) if imported.is_for_types else ())
            if not any(path == d or (d.endswith("/") and path.startswith(d)) for d in allowed):
                complaints.append(f"{path}:{imported.line} imports {imported.module}")
    return sorted(set(complaints))


def docstring_complaints(path: str, source: str) -> list[str]:
    return [] if ast.get_docstring(ast.parse(source)) else [f"{path} has no docstring"]


def length_complaints(path: str, source: str) -> list[str]:
    lines = source.count("\n")
    return [f"{path} has {lines} lines, more than {MAX_LINES}"] if lines > MAX_LINES else []


def name_complaints(path: str, _source: str = "") -> list[str]:
    """No rooms and no files for the homeless."""
    names = {part.removesuffix(".py").strip("_") for part in path.split("/")}
    return [f"{path}: name what it is for, not {name!r}" for name in names & HOMELESS_NAMES]


def machine_path_complaints(path: str, source: str) -> list[str]:
    return [
        f"{path}:{number} names {match[0]}"
        for number, line in enumerate(source.splitlines(), start=1)
        for match in MACHINE_PATH.finditer(line)
    ]


def package_modules() -> list[tuple[str, str]]:
    folder = ROOT / PACKAGE
    return [
        (path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    ]


def tracked_files() -> list[tuple[str, str]]:
    """Text files under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    files = []
    for name in filter(None, listed.stdout.split("\0")):
        if os.path.isfile(ROOT / name):
            data = (ROOT / name).read_bytes()
            if b"\0" not in data:
                files.append((name, data.decode("utf-8")))
    return files


PACKAGE_RULES = (
    order_complaints,
    scan_complaints,
    format_complaints,
    format_name_complaints,
    engine_complaints,
    door_complaints,
    docstring_complaints,
)
FILE_RULES = (length_complaints, name_complaints)


@pytest.mark.parametrize("rule", PACKAGE_RULES, ids=lambda rule: rule.__name__)
def test_package_keeps_the_rule(rule):
    complaints = [c for path, source in package_modules() for c in rule(path, source)]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("rule", FILE_RULES, ids=lambda rule: rule.__name__)
def test_every_python_file_keeps_the_rule(rule):
    python = [(path, source) for path, source in tracked_files() if path.endswith(".py")]
    complaints = [c for path, source in python for c in rule(path, source)]
    assert not complaints, "\n".join(complaints)


def test_no_tracked_file_names_a_path_of_a_machine():
    complaints = [c for path, text in tracked_files() for c in machine_path_complaints(path, text)]
    assert not complaints, "\n".join(complaints)


def test_every_room_of_the_plan_is_looked_at():
    assert len(package_modules()) > 50
    rooms = {room_of(path) for path, _ in package_modules()} - set(FACE)
    assert rooms <= set(LEVELS)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("storage/local.py", "from lm_datafusion.selection import RowSelection"),
        ("plan/table.py", "import lm_datafusion.scan.run"),
        ("formats/parquet/chunk.py", "def f():\n    from lm_datafusion.plan import Table"),
        (
            "pruning/verdict.py",
            "if TYPE_CHECKING:\n    from lm_datafusion.formats.parquet.chunk import ChunkFacts",
        ),
        ("sql/condition.py", "from lm_datafusion import dataset"),
        ("scan/run.py", "from lm_datafusion import __version__"),
        ("errors.py", "from lm_datafusion.options import ScanOptions"),
        ("attic/old.py", ""),
    ],
)
def test_order_rule_finds(path, source):
    assert order_complaints(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("scan/run.py", "from lm_datafusion.plan import ReadPlan"),
        ("scan/run.py", "import pyarrow"),
        ("scan/run.py", "from lm_datafusion.scan.reading.pool import run_ahead"),
        ("cli/console.py", "from lm_datafusion import __version__"),
        ("__init__.py", "from lm_datafusion.cli import console"),
    ],
)
def test_order_rule_allows(path, source):
    assert order_complaints(path, source) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("scan/memory/step_history.py", "from lm_datafusion.scan.pruning.prune import judge"),
        ("scan/pruning/prune.py", "from lm_datafusion.scan.reading.walk import RowGroupScan"),
        ("scan/top_k/crew.py", "from lm_datafusion.scan.run import ScanRun"),
        ("scan/attic/old.py", ""),
    ],
)
def test_scan_rule_finds(path, source):
    assert scan_complaints(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("scan/run.py", "from lm_datafusion.scan.top_k.crew import Crew"),
        ("scan/top_k/first_rows.py", "from lm_datafusion.scan.keys.best_keys import BestKey"),
        ("scan/keys/spans.py", "if TYPE_CHECKING:\n    from lm_datafusion.scan.run import ScanRun"),
    ],
)
def test_scan_rule_allows(path, source):
    assert scan_complaints(path, source) == []


def test_engine_rule_finds():
    assert engine_complaints("engine/cost.py", "from lm_datafusion.engine.server import run")
    assert engine_complaints("engine/paths/late.py", "from lm_datafusion.engine.choose import x")
    assert engine_complaints("engine/offers.py", "import re")


def test_engine_rule_allows():
    source = "if TYPE_CHECKING:\n    from lm_datafusion.engine.server import QueryServer"
    assert engine_complaints("engine/frame.py", source) == []
    source = "from lm_datafusion.engine.paths import late"
    assert engine_complaints("engine/choose.py", source) == []


def test_format_rule_finds():
    source = "from lm_datafusion.formats.parquet.thrift import read_struct"
    assert format_complaints("formats/orc/stripe.py", source)
    assert format_complaints("formats/orc/facts.py", "import lm_datafusion.formats.cache")
    assert format_complaints("formats/orc/profile.py", "import lm_datafusion.formats.profile") == []
    assert format_complaints("formats/parquet/chunk.py", source) == []


@pytest.mark.parametrize("path", ["scan/run.py", "dataset/dataset.py", "engine/cost.py"])
@pytest.mark.parametrize("name", ["parquet.footer", "orc.facts", "parquet"])
def test_format_name_rule_finds(path, name):
    source = f"from lm_datafusion.formats.{name} import Facts"
    assert format_name_complaints(path, source)
    assert format_name_complaints(path, f"if TYPE_CHECKING:\n    {source}")
    assert format_name_complaints("formats/recognition.py", source) == []
    assert format_name_complaints(path, "from lm_datafusion.formats.protocol import Chunk") == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("dataset/dataset.py", "import sqlglot"),
        ("dataset/dataset.py", "def f():\n    from sqlglot import exp"),
        ("scan/run.py", "import datafusion"),
        ("predicate/fold.py", "from datafusion import Expr"),
        ("scan/run.py", "if TYPE_CHECKING:\n    from datafusion import Expr"),
        ("cli/console.py", "from datafusion import SessionContext"),
        ("engine/session.py", "from pyspark.sql import SparkSession"),
        ("formats/parquet/decode.py", "from pyarrow._parquet import ParquetReader"),
        ("formats/parquet/decode.py", "from pyarrow import _parquet"),
        ("formats/parquet/statistics.py", "import xxhash"),
        ("dataset/orc_reader.py", "from pyarrow import orc"),
    ],
)
def test_door_rule_finds(path, source):
    assert door_complaints(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("sql/condition.py", "import sqlglot"),
        ("predicate/evaluator.py", "def f():\n    from datafusion import SessionContext"),
        ("predicate/fold.py", "if TYPE_CHECKING:\n    from datafusion import Expr"),
        ("engine/session.py", "import datafusion"),
        ("formats/parquet/footer.py", "from pyarrow._parquet import ParquetReader"),
        ("scan/run.py", "import pyarrow.parquet"),
        ("formats/orc/decode.py", "from pyarrow import orc"),
        ("scan/run.py", "import lm_datafusion.datafusion_like"),
    ],
)
def test_door_rule_allows(path, source):
    assert door_complaints(path, source) == []


def test_docstring_rule_finds():
    assert docstring_complaints("scan/run.py", "import os\n")
    assert docstring_complaints("scan/run.py", '"""What it is."""\n') == []


def test_length_rule_finds():
    assert length_complaints("scan/run.py", "\n" * (MAX_LINES + 1))
    assert length_complaints("scan/run.py", "\n" * MAX_LINES) == []


def test_name_rule_finds():
    assert name_complaints("lm_datafusion/scan/utils.py")
    assert name_complaints("lm_datafusion/common/pages.py")
    assert name_complaints("lm_datafusion/scan/_helpers.py")
    assert name_complaints("lm_datafusion/scan/pages.py") == []


@pytest.mark.parametrize("folder", MACHINE_FOLDERS)
@pytest.mark.parametrize("before", ["", " ", '"', "`", "(", "file://", "="])
def test_machine_path_rule_finds(folder, before):
    assert machine_path_complaints("README.md", f"see {before}/{folder}/someone/file")
    assert machine_path_complaints("README.md", f"see {before}/{folder}")


@pytest.mark.parametrize(
    "text",
    [
        "#!/usr/bin/env bash",
        "shop.example/home/page",
        "a/work/b and ./tmp/x and ../opt",
        "2>/dev/null",
        "/tmpfs /workshop",
    ],
)
def test_machine_path_rule_allows(text):
    assert machine_path_complaints("README.md", text) == []
