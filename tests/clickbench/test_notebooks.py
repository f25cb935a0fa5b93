"""The notebooks run from top to bottom, and are kept without outputs."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from clickbench import generate as command
from clickbench.generate import generate
from clickbench.notebooks import settings
from clickbench.notebooks.settings import Settings, chosen_queries

FOLDER = Path(settings.__file__).parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
ROWS = 140_000  # three blocks, so that there are files to skip
PNG = "image/png"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What the notebooks would make on Spark, made here: the same files by the same words."""
    folder = tmp_path_factory.mktemp("notebooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "run_tasks", lambda function, tasks, _: map(function, tasks))
        for layout in ("clickbench", "tuned"):
            generate(ROWS, str(folder / f"{layout}_{ROWS}"), layout=layout, files=settings.FILES)
    return folder


@pytest.fixture
def environment(data, tmp_path, monkeypatch):
    """Small data, few runs; what Jupyter, IPython and matplotlib write goes to a folder, too."""
    values = {
        "CLICKBENCH_DATA": data,
        "CLICKBENCH_ROWS": ROWS,
        "CLICKBENCH_QUERIES": "36",
        "CLICKBENCH_REPEAT": 1,
        "IPYTHONDIR": tmp_path / "ipython",
        "JUPYTER_RUNTIME_DIR": tmp_path / "jupyter",
        "MPLCONFIGDIR": tmp_path / "matplotlib",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))


def executed(name, folder):
    """The notebook after a run in a folder of its own."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return notebook


def printed(notebook):
    return "".join(
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream" and output.name == "stdout"
    )


def plots(notebook):
    return [
        output.data[PNG]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if PNG in output.get("data", {})
    ]


def test_the_introduction_runs(environment, tmp_path):
    before = sorted(os.listdir(tmp_path))
    text = printed(executed("introduction", tmp_path))
    assert f"{ROWS:,} rows of web traffic in 3 files" in text
    assert "scan of hits: late (path=late)" in text
    assert "dropped by bloom filters" in text
    assert set(os.listdir(tmp_path)) - set(before) <= {"ipython", "jupyter", "matplotlib"}


@pytest.mark.slow
def test_the_spark_comparison_runs(environment, tmp_path):
    notebook = executed("spark_comparison", tmp_path)
    text = printed(notebook)
    assert "all answers equal" in text
    assert "layout tuned: row groups and pages skipped" in text
    assert "EqualTo(CounterID,62)" in text
    assert len(plots(notebook)) == 3
    table = text.partition("layout tuned, Spark: rows skipped by each level\n")[2].splitlines()
    name, *counts = table[1].replace(",", "").split()
    by_statistics, _, _, by_page_index, left = map(int, counts)
    assert name == "q36"
    assert sum(map(int, counts)) == ROWS
    assert by_statistics > 0
    assert by_page_index > 0
    assert left % 20_000 == 0, "whole pages of the layout"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert [cell.outputs for cell in code] == [[]] * len(code)
    assert [cell.execution_count for cell in code] == [None] * len(code)


def test_what_the_environment_does_not_say_has_a_default(monkeypatch):
    for name in ("ROWS", "DATA", "QUERIES", "REPEAT"):
        monkeypatch.delenv(f"CLICKBENCH_{name}", raising=False)
    found = Settings()
    assert found.rows >= 100_000
    assert Path(found.folder).relative_to(settings.CHECKOUT).parts[0] == "data"
    assert [query.name for query in chosen_queries("3,5")] == ["q03", "q05"]


def test_data_that_cannot_be_made_is_said(tmp_path):
    with pytest.raises(RuntimeError, match="--rows must be"):
        Settings(rows=5, folder=str(tmp_path)).data("tuned")
