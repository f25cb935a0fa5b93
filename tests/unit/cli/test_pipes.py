"""Commands as processes of a shell: pipes that close, signals, terminals."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = f"{shlex.quote(sys.executable)} -m lm_datafusion"


def shell(script, **options):
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


@pytest.mark.parametrize("format_name", ["table", "csv", "json", "ndjson"])
def test_a_pipe_into_head_ends_quietly(many_rows, format_name):
    query = shlex.quote(f"SELECT * FROM '{many_rows}'")
    ran = shell(f"{PROGRAM} sql -c {query} --format {format_name} | head -n 2")
    assert ran.stderr == ""
    assert len(ran.stdout.splitlines()) == 2
    assert ran.returncode == 141


@pytest.mark.parametrize(
    "arguments",
    ["sql --help", "inspect {file} --column text --pages", "explain -c 'SELECT 1'"],
)
def test_a_pipe_that_is_closed_at_once(many_rows, arguments):
    script = f"{PROGRAM} {arguments.format(file=shlex.quote(str(many_rows)))} | true"
    assert shell(script).stderr == ""


def test_a_pipe_that_closes_with_standard_error_in_it(many_rows):
    query = shlex.quote(f"SELECT * FROM '{many_rows}'")
    ran = shell(f"{PROGRAM} sql -c {query} --timing 2>&1 | head -n 1")
    assert len(ran.stdout.splitlines()) == 1
    assert ran.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("command", ["sql -c 'SELECT 1'", "explain -c 'SELECT 1'"])
def test_a_full_disk_is_one_message(command):
    ran = shell(f"{PROGRAM} {command} > /dev/full")
    assert ran.returncode == 1
    assert "No space left" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["sql -c 'SELECT 1' --timing", "inspect {file}"])
def test_streams_that_are_closed_from_the_start(people, command, closed):
    ran = shell(f"{PROGRAM} {command.format(file=shlex.quote(str(people)))} {closed}")
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("wait_s", [0.5, 3])
def test_interrupting_ends_with_130(many_rows, tmp_path, wait_s):
    """The query would take hours, and does not look up for a minute."""
    target = tmp_path / "out.csv"
    query = f"SELECT count(*) FROM '{many_rows}' a JOIN '{many_rows}' b ON a.id <> b.id"
    process = subprocess.Popen(
        [sys.executable, "-m", "lm_datafusion", "sql", "-c", query, "-o", target],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(wait_s)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert err == "stopped\n"
    assert list(tmp_path.iterdir()) == []


def run_on_terminal(arguments, columns):
    """What a command writes to a terminal that is both its outputs."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lm_datafusion", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"COLUMNS": str(columns), "LINES": "40"},
    )
    os.close(theirs)
    received = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        received += chunk
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return received.decode()


def test_a_terminal_gets_some_rows_that_fit(many_rows):
    query = f"SELECT id, text, repeat('x', 200) AS wide FROM '{many_rows}'"
    text = run_on_terminal(["sql", "-c", query], columns=60)
    lines = [line for line in text.split("\r\n") if line.startswith(("|", "+"))]
    assert len(lines) == 40 + 4
    assert {len(line) for line in lines} == {60}
    assert "400,000 rows, … 399,960 more" in text


def test_a_long_query_shows_its_progress_on_a_terminal(many_rows):
    query = f"""SELECT count(*) AS n FROM '{many_rows}' a JOIN '{many_rows}' b
        ON a.id % 400 = b.id % 400 AND a.id < b.id WHERE b.id < 200000"""
    text = run_on_terminal(["sql", "-c", query], columns=100)
    if "rows received" not in text:
        pytest.skip("this machine ran the query in less than half a second")
    before, _, after = text.rpartition("\x1b[K")
    assert " s, " in before
    assert after.lstrip().startswith("+--")
