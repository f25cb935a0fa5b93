from __future__ import annotations

import subprocess
import sys

import pytest

import lm_datafusion as lm

HEAVY = ("datafusion", "duckdb", "numpy", "polars", "pyarrow", "pyspark", "sqlglot")


def run_python(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_public_names_are_pinned():
    assert lm.__all__ == [
        "LateDataset",
        "LateError",
        "LateTableFactory",
        "OrcReader",
        "ParquetReader",
        "RowSelection",
        "RowSelector",
        "ScanExplanation",
        "ScanOptions",
        "ScanReport",
        "ScanRequest",
        "SessionContext",
        "__version__",
        "clear_condition_cache",
        "condition_cache_bytes",
        "dataset",
        "kernel_info",
        "orc_reader",
        "parquet_reader",
    ]


@pytest.mark.parametrize("name", lm.__all__)
def test_every_public_name_is_there(name):
    assert getattr(lm, name) is not None
    assert name in dir(lm)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lm.no_such_name


def test_import_loads_no_heavy_library():
    code = f"import lm_datafusion, sys; print([n for n in {HEAVY} if n in sys.modules])"
    assert run_python(code) == "[]"


def test_help_loads_no_heavy_library():
    code = (
        "import sys\n"
        "from lm_datafusion.cli.console import main\n"
        "main([])\n"
        f"print([n for n in {HEAVY} if n in sys.modules])"
    )
    assert run_python(code).splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "first",
    [
        "lm.LateDataset",
        "import lm_datafusion.dataset",
        "from lm_datafusion.dataset import LateScanner",
        "import lm_datafusion.dataset.scanner",
    ],
)
def test_dataset_stays_the_function_when_its_room_is_imported_first(first):
    code = f"import lm_datafusion as lm\n{first}\nprint(type(lm.dataset).__name__)"
    assert run_python(code) == "function"


def test_version_is_that_of_the_package():
    from importlib.metadata import version

    assert version("lm_datafusion") == lm.__version__
