from __future__ import annotations

import json

from lm_datafusion.cli.console import main


def run(capfd, *arguments):
    code = main(["explain", *map(str, arguments)])
    out, err = capfd.readouterr()
    return code, out, err


def test_one_query(people, capfd):
    query = f"SELECT name FROM '{people}' WHERE id = 2"
    code, out, err = run(capfd, "-c", query, "--path", "late")
    assert (code, err) == (0, "")
    assert out.startswith("people: late")
    assert '"id" = ' in out
    assert "statement" not in out


def test_several_statements_have_numbers(people, capfd):
    script = f"CREATE VIEW v AS SELECT * FROM '{people}'; SELECT id FROM v; SELECT 1"
    code, out, _ = run(capfd, "-c", script)
    assert code == 0
    assert "statement 2: SELECT id FROM v" in out
    assert "statement 3: SELECT 1" in out
    assert "statement 1" not in out


def test_json(people, capfd):
    query = f"SELECT name FROM p WHERE id = 2; {'SELECT 1' + ' ' * 100}"
    code, out, _ = run(
        capfd, "-t", f"p={people}", "-c", query, "--format", "json", "--path", "late"
    )
    assert code == 0
    first, second = json.loads(out)
    assert first["statement"] == 1
    assert first["sql"] == "SELECT name FROM p WHERE id = 2"
    assert first["tables"][0]["table"] == "p"
    assert first["tables"][0]["path"] == "late"
    assert second["tables"] == []


def test_nothing_is_run(people, tmp_path, capfd):
    target = tmp_path / "copied.parquet"
    assert run(capfd, "-c", f"COPY (SELECT * FROM '{people}') TO '{target}'")[0] == 0
    assert not target.exists()


def test_a_long_statement_is_cut_in_its_title(capfd):
    _, out, _ = run(capfd, "-c", f"SELECT {'1 + ' * 100} 1; SELECT 2")
    assert max(map(len, out.splitlines())) < 100


def test_errors(capfd):
    code, _, err = run(capfd, "-c", "SELECT 1; SELECT nope FROM nowhere")
    assert code == 1
    assert "statement 2: " in err
    assert "Traceback" not in err
