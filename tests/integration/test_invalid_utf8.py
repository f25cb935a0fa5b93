"""Text columns that hold bytes which are no UTF-8.

DataFusion's reader refuses such values ("encountered non UTF-8 data"), and its functions rely on
that: they read beyond the end of a value that stops inside a character. So a late scan has to
refuse them as well. Queries run in a process of their own, for a crash to be a failing test.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 2000
PLACE = 1100

# By name: values of neighbouring rows, at least one of them no text.
BAD_VALUES = {
    "first byte": [b"\xffalue bad"],
    "middle": [b"bad \xff value"],
    "last byte": [b"value bad\xff"],
    "continuation first": [b"\x80value bad"],
    "continuation": [b"bad \x80 value"],
    "cut after one of two": [b"value bad \xc3"],
    "cut after two of three": [b"value bad \xe2\x82"],
    "cut after one of four": [b"value bad \xf0"],
    "cut after three of four": [b"value bad \xf0\x9f\x98"],
    "completed by the next of two": [b"value bad \xc3", b"\xa9 bad"],
    "completed by the next of three": [b"value bad \xe2\x82", b"\xac bad"],
    "completed by the next of four": [b"value bad \xf0\x9f", b"\x98\x80 bad"],
    "completed by all of the next": [b"bad \xe2", b"\x82\xac", b"bad"],
    "nothing but a start": [b"\xf0"],
    "overlong slash": [b"bad \xc0\xaf value"],
    "overlong of three": [b"bad \xe0\x80\xaf value"],
    "surrogate": [b"bad \xed\xa0\x80 value"],
    "beyond Unicode": [b"bad \xf4\x90\x80\x80 value"],
    "in long text": [b"bad " + b"x" * 5000 + b"\xff" + b"y" * 5000],
}

SMALL_PAGES = {"row_group_size": 500, "data_page_size": 512, "write_batch_size": 50}
PLAIN = {"use_dictionary": False}
LAYOUTS = {
    "dictionary": {},
    "dictionary V2": {"data_page_version": "2.0"},
    "dictionary with index": {"write_page_index": True},
    "plain": PLAIN,
    "plain V2": {**PLAIN, "data_page_version": "2.0"},
    "plain with index": {**PLAIN, "write_page_index": True},
    "delta length": {**PLAIN, "column_encoding": {"s": "DELTA_LENGTH_BYTE_ARRAY"}},
    "delta": {**PLAIN, "column_encoding": {"s": "DELTA_BYTE_ARRAY"}},
    "snappy": {"compression": "snappy"},
    "required dictionary": {"nulls": False},
    "required plain": {**PLAIN, "nulls": False},
    "required V2": {**PLAIN, "nulls": False, "data_page_version": "2.0"},
}


def text_array(values, data_type=None):
    """An array of text whose bytes nobody has looked at."""
    contents = [value or b"" for value in values]
    offsets = np.cumsum([0, *map(len, contents)]).astype(np.int32)
    valid = np.packbits([value is not None for value in values], bitorder="little")
    buffers = [
        pa.py_buffer(valid.tobytes()),
        pa.py_buffer(offsets),
        pa.py_buffer(b"".join(contents)),
    ]
    return pa.Array.from_buffers(data_type or pa.string(), len(values), buffers)


def values_around(bad, position, *, nulls):
    values = [f"välue {row % 40}".encode() for row in range(ROWS)]
    if nulls:
        values[::7] = [None] * len(values[::7])
    values[position : position + len(bad)] = bad
    return values


def bad_file(path, values, *, nulls=True, **options):
    fields = [
        pa.field("s", pa.string(), nullable=nulls),
        pa.field("id", pa.int64(), nullable=False),
    ]
    table = pa.table([text_array(values), pa.array(range(ROWS))], schema=pa.schema(fields))
    options = {"compression": "none", "store_schema": False, **SMALL_PAGES, **options}
    pq.write_table(table, path, **options)
    return str(path)


# Reads jobs from its input, and prints a line per job. Text is looked at as bytes: an error about
# it is then the query's.
RUNNER = """
import json, sys
import pyarrow as pa
import lm_datafusion as lm

def plain(column):
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.binary_view())
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values = column.to_pylist()
    return [v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else v for v in values]

for path, query, options in json.load(sys.stdin):
    try:
        if query.startswith("SELECT"):
            session = lm.SessionContext(options=lm.ScanOptions(**options))
            session.register_parquet("t", path)
            found = session.sql(query).to_arrow_table()
        else:
            found = lm.dataset(path).to_table(filter=query)
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    else:
        answer = {"rows": [plain(column) for column in found.columns]}
    print(json.dumps(answer), flush=True)
"""


def outcomes(jobs):
    """What became of each job: rows, an error, or a crash, after which no job is run."""
    process = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = [json.loads(line) for line in process.stdout.splitlines()]
    assert process.returncode or len(found) == len(jobs), process.stderr
    if len(found) < len(jobs):
        found.append({"crash": process.returncode, "stderr": process.stderr[-200:]})
    return found


def is_refused(outcome):
    text = outcome.get("error", "").lower()
    return "utf-8" in text or "utf8" in text


def refusals_missing(jobs):
    """By name of a job: what became of it instead of an error that names UTF-8."""
    found = outcomes([job for _, job in jobs])
    return {
        name: str(outcome)[:200]
        for (name, _), outcome in zip(jobs, found, strict=False)
        if not is_refused(outcome)
    }


LATE = {"path": "late"}
WANTED = [
    "SELECT reverse(s), substr(s, 2, 3) FROM t WHERE s LIKE '%bad%' OR id BETWEEN 1099 AND 1105",
    "SELECT s FROM t WHERE id BETWEEN 1099 AND 1105",
    "SELECT upper(s), char_length(s) FROM t WHERE id % 2 < 2",
]


def files_of(tmp_path, *, position=PLACE, nulls=True, every=1, **options):
    for number, (name, bad) in enumerate(BAD_VALUES.items()):
        if number % every:
            continue
        values = values_around(bad, min(position, ROWS - len(bad)), nulls=nulls)
        path = bad_file(tmp_path / f"{number}.parquet", values, nulls=nulls, **options)
        yield name, values, path


each_layout = pytest.mark.parametrize("layout", LAYOUTS)
each_kind = pytest.mark.parametrize("layout", ["dictionary", "plain", "plain V2", "delta"])


@each_layout
def test_values_asked_for_are_refused(tmp_path, layout):
    files = files_of(tmp_path, **LAYOUTS[layout])
    jobs = [(name, (path, query, LATE)) for name, _, path in files for query in WANTED]
    assert refusals_missing(jobs) == {}


@each_kind
def test_the_last_value_is_refused(tmp_path, layout):
    query = "SELECT reverse(s), substr(s, 2, 3) FROM t WHERE id > 1990"
    files = files_of(tmp_path, position=ROWS, **LAYOUTS[layout])
    jobs = [(name, (path, query, LATE)) for name, _, path in files]
    assert refusals_missing(jobs) == {}


@pytest.mark.parametrize("layout", ["dictionary", "plain"])
def test_datasets_refuse_them_too(tmp_path, layout):
    files = files_of(tmp_path, **LAYOUTS[layout])
    jobs = [(name, (path, "id BETWEEN 1099 AND 1105", {})) for name, _, path in files]
    assert refusals_missing(jobs) == {}


# In the two delta encodings it lets pass a character that two values share.
@pytest.mark.parametrize("layout", ["dictionary", "plain", "plain V2"])
@pytest.mark.parametrize("reader", ["native", "auto"])
def test_datafusions_reader_refuses_them(tmp_path, layout, reader):
    query = "SELECT s FROM t WHERE id BETWEEN 1099 AND 1105"
    files = files_of(tmp_path, **LAYOUTS[layout])
    jobs = [(name, (path, query, {"path": reader})) for name, _, path in files]
    assert refusals_missing(jobs) == {}


@pytest.mark.parametrize("layout", ["dictionary", "plain"])
def test_the_second_of_two_phases_refuses_them(tmp_path, layout):
    query = "SELECT reverse(s), s FROM t WHERE id > 1098 ORDER BY id LIMIT 5"
    files = files_of(tmp_path, **LAYOUTS[layout])
    jobs = [(name, (path, query, {"path": "late"})) for name, _, path in files]
    assert refusals_missing(jobs) == {}


# Conditions that the bad rows do not meet.
OTHERS = {
    "id = 3": lambda row, value: row == 3,
    "id BETWEEN 1090 AND 1097": lambda row, value: 1090 <= row <= 1097,
    "id > 1990": lambda row, value: row > 1990,
    "s = 'välue 7'": lambda row, value: value == "välue 7".encode(),
    "s LIKE '%lue 39'": lambda row, value: bool(value) and value.endswith(b"lue 39"),
    "s IS NULL AND id < 100": lambda row, value: value is None and row < 100,
}
COUNT = "SELECT count(*) FROM t WHERE s LIKE '%bad%'"


@each_layout
def test_other_rows_are_right_or_refused(tmp_path, layout):
    jobs, expected = [], []
    for name, values, path in files_of(tmp_path, every=3, **LAYOUTS[layout]):
        for condition, is_met in OTHERS.items():
            query = f"SELECT id, s, reverse(s) FROM t WHERE {condition} ORDER BY id"
            jobs.append((f"{name}: {condition}", (path, query, LATE)))
            rows = [row for row, value in enumerate(values) if is_met(row, value)]
            expected.append([rows, [_text(values[row]) for row in rows]])
        jobs.append((f"{name}: count", (path, COUNT, LATE)))
        expected.append([[sum(b"bad" in (value or b"") for value in values)]])
    found = outcomes([job for _, job in jobs])
    wrong = {
        name: str(outcome)[:200]
        for (name, _), outcome, right in zip(jobs, found, expected, strict=False)
        if not is_refused(outcome) and outcome.get("rows", [])[:2] != right
    }
    assert wrong == {}


def _text(value):
    return None if value is None else value.decode()


def nested_file(path, bad):
    """The same text in a struct, in a list and in Arrow's dictionary."""
    values = values_around(bad, PLACE, nulls=False)
    text = text_array(values)
    lists = pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), text)
    structs = pa.StructArray.from_arrays([text], ["s"])
    distinct = list(dict.fromkeys(values))
    codes = pa.array([distinct.index(value) for value in values], pa.int32())
    coded = pa.DictionaryArray.from_arrays(codes, text_array(distinct))
    columns = {"id": pa.array(range(ROWS)), "l": lists, "st": structs, "d": coded}
    pq.write_table(pa.table(columns), path, **SMALL_PAGES)
    return str(path)


@pytest.mark.parametrize("shown", ["array_to_string(l, '-')", "reverse(st['s'])", "reverse(d)"])
def test_nested_values_and_dictionaries_are_refused(tmp_path, shown):
    query = f"SELECT {shown} FROM t WHERE id BETWEEN 1099 AND 1105"
    jobs = [
        (name, (nested_file(tmp_path / f"{number}.parquet", bad), query, LATE))
        for number, (name, bad) in enumerate(BAD_VALUES.items())
    ]
    assert refusals_missing(jobs) == {}


@pytest.mark.parametrize("layout", ["dictionary", "plain"])
def test_good_text_of_all_lengths_is_read(tmp_path, layout):
    """What is refused is not text; characters of two to four bytes are."""
    good = ["é", "€", "😀", "", "bad é€😀", "\U0010ffff", "\ud7ff\ue000", "\0"]
    values = values_around([text.encode() for text in good], PLACE, nulls=True)
    path = bad_file(tmp_path / "good.parquet", values, **LAYOUTS[layout])
    query = "SELECT s FROM t WHERE id BETWEEN 1100 AND 1107 ORDER BY id"
    (found,) = outcomes([(path, query, LATE)])
    assert found == {"rows": [good]}
