from __future__ import annotations

import csv
import io
import json
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.cli.console import main
from lm_datafusion.options import AccessPath


def run(capfd, *arguments):
    code = main(["sql", *map(str, arguments)])
    out, err = capfd.readouterr()
    return code, out, err


def test_a_path_is_a_table(people, capfd):
    code, out, err = run(capfd, "-c", f"SELECT id, name FROM '{people}' ORDER BY id")
    assert code == 0
    assert err == ""
    assert out.splitlines() == [
        "+----+----------+",
        "| id | name     |",
        "+----+----------+",
        "|  1 | Ada      |",
        "|  2 | NULL     |",
        "|  3 | it's; me |",
        "+----+----------+",
        "3 rows",
    ]


def test_a_path_is_named_by_its_stem(people, capfd):
    query = f'SELECT people.id FROM "{people}" WHERE people.id = 2'
    assert run(capfd, "-c", query, "--format", "csv") == (0, '"id"\n2\n', "")


def test_two_paths_of_one_stem(people, tmp_path, capfd):
    other = tmp_path / "other"
    other.mkdir()
    pq.write_table(pa.table({"id": [2], "city": ["Bonn"]}), other / "people.parquet")
    query = (
        f"SELECT a.name, b.city FROM '{people}' a JOIN '{other / 'people.parquet'}' b USING (id)"
    )
    assert json.loads(run(capfd, "-c", query, "--format", "json")[1]) == [
        {"name": None, "city": "Bonn"}
    ]


def test_named_tables_in_any_case(people, capfd):
    code, out, _ = run(
        capfd, "-t", f"People={people}", "-c", "SELECT count(*) AS n FROM PEOPLE", "--format", "csv"
    )
    assert (code, out) == (0, '"n"\n3\n')


@pytest.mark.parametrize("where", ["folder", "glob"])
def test_folders_and_globs(people, tmp_path, capfd, where):
    path = tmp_path if where == "folder" else tmp_path / "p*.parquet"
    query = f"SELECT count(*) AS n FROM '{path}'"
    assert run(capfd, "-c", query, "--format", "csv")[:2] == (0, '"n"\n3\n')


def test_folders_named_key_value_are_columns(tmp_path, capfd):
    for year in (2023, 2024):
        (tmp_path / "log" / f"year={year}").mkdir(parents=True)
        pq.write_table(pa.table({"a": [year]}), tmp_path / "log" / f"year={year}" / "f.parquet")
    query = "SELECT a FROM log WHERE year = '2024'"
    code, out, _ = run(capfd, "-t", f"log={tmp_path / 'log'}", "-c", query, "--format", "csv")
    assert (code, out) == (0, '"a"\n2024\n')


@pytest.mark.parametrize("name", ["data.pq", "data"])
def test_files_of_any_suffix(people, tmp_path, capfd, name):
    people.rename(tmp_path / name)
    query = f"SELECT count(*) AS n FROM '{tmp_path / name}'"
    assert run(capfd, "-c", query, "--format", "csv")[:2] == (0, '"n"\n3\n')


@pytest.mark.parametrize("path", AccessPath.__args__)
def test_every_path_gives_the_same_answer(people, capfd, path):
    query = f"SELECT id FROM '{people}' WHERE name LIKE '%;%'"
    assert run(capfd, "-c", query, "--path", path, "--format", "csv")[:2] == (0, '"id"\n3\n')


def test_statements_run_in_order(people, tmp_path, capfd):
    script = tmp_path / "script.sql"
    script.write_text(
        f"-- a view; then a look at it\nCREATE VIEW v AS SELECT id, ';' AS s FROM '{people}';\n"
        "SELECT max(id) AS m, 'a;b' AS t FROM v; SELECT count(*) AS n FROM v"
    )
    code, out, _ = run(capfd, script, "-c", "SELECT 7 AS last", "--format", "csv")
    assert (code, out) == (0, '"m","t"\n3,"a;b"\n\n"n"\n3\n\n"last"\n7\n')


def test_several_results_as_json_are_several_arrays(capfd):
    _, out, _ = run(capfd, "-c", "SELECT 1 AS a; SELECT 2 AS b", "--format", "json")
    assert out == '[\n{"a": 1}\n]\n[\n{"b": 2}\n]\n'


def test_statements_are_called_by_their_files(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.sql").write_text("SELECT 1;")
    (tmp_path / "two.sql").write_text("SELECT 2; SELECT 3")
    arguments = ["one.sql", "two.sql", "-c", "SELECT 4", "-c", "SELECT nope"]
    code, _, err = run(capfd, *arguments, "--timing")
    assert code == 1
    assert [line.split(":")[0] for line in err.splitlines()[:4]] == [
        "one.sql",
        "two.sql, statement 1",
        "two.sql, statement 2",
        "statement 1",
    ]
    assert "statement 2: " in err.splitlines()[4]


def test_commands_are_texts_of_their_own(capfd):
    arguments = ["-c", "SELECT 1 AS a -- no end", "-c", "SELECT 2 AS b"]
    assert run(capfd, *arguments, "--format", "ndjson")[1] == '{"a": 1}\n{"b": 2}\n'


def test_settings_hold_for_later_statements(capfd):
    script = "SET datafusion.execution.time_zone = '+02:00'; SHOW datafusion.execution.time_zone"
    _, out, _ = run(capfd, "-c", script, "--format", "csv")
    assert "+02:00" in out


def test_sql_from_standard_input(people, capfd, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"SELECT id FROM '{people}' WHERE id = 1;"))
    assert run(capfd, "--format", "csv")[:2] == (0, '"id"\n1\n')


def test_no_sql_on_a_terminal_is_an_error(capfd, monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    code, out, err = run(capfd)
    assert (code, out) == (1, "")
    assert "no SQL was given" in err


@pytest.mark.parametrize("format_name", ["table", "csv", "json", "ndjson", "parquet"])
def test_output_file(people, tmp_path, capfd, format_name):
    target = tmp_path / f"out.{'txt' if format_name == 'table' else format_name}"
    query = f"SELECT id FROM '{people}' ORDER BY id"
    assert run(capfd, "-c", query, "-o", target) == (0, "", "")
    if format_name == "parquet":
        assert pq.read_table(target).to_pydict() == {"id": [1, 2, 3]}
    elif format_name == "csv":
        assert [row["id"] for row in csv.DictReader(io.StringIO(target.read_text()))] == list("123")
    elif format_name == "json":
        assert json.loads(target.read_text()) == [{"id": 1}, {"id": 2}, {"id": 3}]
    else:
        assert len(target.read_text().splitlines()) == (8 if format_name == "table" else 3)
    assert sorted(os.listdir(tmp_path)) == sorted([target.name, people.name])


def test_a_result_can_replace_the_file_it_is_read_from(people, capfd):
    query = f"SELECT id FROM '{people}' WHERE id > 1"
    assert run(capfd, "-c", query, "-o", people)[0] == 0
    assert pq.read_table(people).to_pydict() == {"id": [2, 3]}


def test_a_failure_leaves_the_output_as_it_was(people, tmp_path, capfd):
    target = tmp_path / "out.csv"
    target.write_text("before")
    code, _, err = run(capfd, "-c", f"SELECT 1 / (id - 2) AS x FROM '{people}'", "-o", target)
    assert code == 1
    assert "Divide by zero" in err
    assert target.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "people.parquet"]


def test_max_rows(many_rows, capfd):
    _, out, _ = run(capfd, "-c", f"SELECT id FROM '{many_rows}'", "--max-rows", "5")
    assert len(out.splitlines()) == 3 + 5 + 2
    assert out.splitlines()[-1].startswith("400,000 rows, … 399,995 more")


def test_output_that_is_no_terminal_has_all_rows(capfd):
    _, out, _ = run(capfd, "-c", "SELECT * FROM generate_series(1, 2500)")
    assert len(out.splitlines()) == 2500 + 5


def test_timing_and_reports_go_to_standard_error(people, capfd):
    query = f"SELECT id FROM '{people}' WHERE id = 2; SELECT 1 AS one"
    code, out, err = run(
        capfd, "-c", query, "--timing", "--reports", "--path", "late", "--format", "csv"
    )
    assert (code, out) == (0, '"id"\n2\n\n"one"\n1\n')
    assert "statement 1: 1 row in " in err
    assert "statement 2: 1 row in " in err
    assert "s CPU)" in err
    assert "scan of " in err


def test_no_late_scan_has_no_report(capfd):
    assert "no scan reports" in run(capfd, "-c", "SELECT 1", "--reports")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-c", "SELEC 1"], "Expected: an SQL statement"),
        (["-c", "SELECT nope"], "nope"),
        (["-c", "SELECT 1 / 0"], "Divide by zero"),
        (["-c", "SELECT 1; SELECT * FROM nowhere"], "statement 2: "),
        (["-c", "SELECT * FROM 'no.parquet'"], "no.parquet"),
        (["-c", "SELECT 1", "-t", "x=no.parquet"], "no file at no.parquet"),
        (["-c", "SELECT 1", "-t", "a b=no.parquet"], "cannot be the name of a table"),
        (["no.sql"], "no.sql: No such file"),
        (["-c", "SELECT 1", "--format", "parquet"], "name it with -o"),
    ],
)
def test_errors_are_one_message_and_no_traceback(arguments, message, capfd):
    code, _, err = run(capfd, *arguments)
    assert code == 1
    assert err.startswith("lm-datafusion: ")
    assert message in err
    assert "Traceback" not in err


def test_a_table_that_is_no_parquet_file(tmp_path, capfd):
    (tmp_path / "bad.parquet").write_text("this is text, not a Parquet file")
    code, _, err = run(capfd, "-c", f"SELECT * FROM '{tmp_path / 'bad.parquet'}'")
    assert code == 1
    assert "bad.parquet" in err
    assert err.count("\n") == 1


def test_a_parquet_file_in_place_of_sql(people, capfd):
    code, _, err = run(capfd, people)
    assert code == 1
    assert "tables are given with -t" in err


def test_parquet_holds_one_result(tmp_path, capfd):
    target = tmp_path / "out.parquet"
    assert run(capfd, "-c", "SELECT 1 AS a; SELECT 2 AS b", "-o", target)[0] == 1
    code, _, err = run(capfd, "-c", "CREATE VIEW v AS SELECT 1", "-o", target)
    assert code == 1
    assert "no statement has a result" in err
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there(tmp_path, capfd):
    code, _, err = run(capfd, "-c", "SELECT 1", "-o", tmp_path / "no" / "out.csv")
    assert code == 1
    assert "No such file" in err
    assert "Traceback" not in err
