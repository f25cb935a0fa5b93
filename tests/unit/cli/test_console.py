from __future__ import annotations

import runpy
import subprocess
import sys

import pytest

import lm_datafusion as lm
from lm_datafusion.cli.console import main


def test_no_command_prints_help(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert "demo" in printed
    assert "lm.dataset" in printed


def test_version(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"lm_datafusion {lm.__version__}\n{lm.kernel_info()}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["demo", "--rows", "0"],
        ["demo", "--rows", "x"],
        ["sql", "-t", "hits.parquet"],
        ["sql", "-t", "=hits.parquet"],
        ["sql", "--format", "xml"],
        ["sql", "--path", "shortcut"],
        ["sql", "--max-rows", "-1"],
        ["inspect"],
        ["explain", "--format", "csv"],
    ],
)
def test_a_command_line_that_is_not_understood(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "error" in capsys.readouterr().err


def test_demo_compares_equal_answers_and_keeps_the_file(tmp_path, capsys):
    assert main(["demo", "--rows", "30_000", "--repeats", "1", "--dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("answers are equal") == 2
    assert "DIFFER" not in printed
    assert lm.dataset(tmp_path).count_rows() == 30_000


def test_demo_fails_when_answers_differ(tmp_path, capsys, monkeypatch):
    read = lm.LateDataset.to_table
    monkeypatch.setattr(lm.LateDataset, "to_table", lambda *a, **k: read(*a, **k).slice(1))
    assert main(["demo", "--rows", "30000", "--repeats", "1", "--dir", str(tmp_path)]) == 1
    assert "ANSWERS DIFFER from those of pyarrow.dataset: lm.dataset" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_reported(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "--rows", "10", "--dir", str(tmp_path / "file" / "inside")]) == 1
    assert capsys.readouterr().err.startswith("lm-datafusion: ")


def test_too_little_disk_is_reported_before_writing(tmp_path, capsys):
    assert main(["demo", "--rows", str(10**15), "--dir", str(tmp_path)]) == 1
    assert "ask for fewer --rows" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_module_runs_the_same_commands(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lm_datafusion"])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_module("lm_datafusion", run_name="__main__")
    assert exit_.value.code == 0
    assert "usage: lm-datafusion" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (
            "sql",
            "FILE.sql -c -t --path --format -o --max-rows --timing --reports csv json parquet",
        ),
        ("explain", "FILE.sql -c -t --path --format json"),
        ("inspect", "FILE --column --row-groups --pages --format overlap dict bloom"),
        ("demo", "--rows --repeats --dir"),
    ],
)
def test_help_names_every_option(command, options, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    printed = capsys.readouterr().out
    assert [option for option in options.split() if option not in printed] == []
    for line in printed.splitlines():
        assert len(line) <= 100, line


@pytest.mark.parametrize("command", ["sql", "explain", "inspect", "demo"])
def test_every_command_is_in_the_help(command, capsys):
    assert main([]) == 0
    assert f"\n    {command} " in capsys.readouterr().out


def test_the_frame_of_the_commands_loads_no_heavy_library():
    code = (
        "import sys; from lm_datafusion.cli.console import main; main([]);"
        "heavy = {'pyarrow', 'numpy', 'datafusion', 'sqlglot'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
