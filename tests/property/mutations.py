"""Damaged pages for the compiled kernels: an error or values, and nothing else.

    python -m tests.property.mutations --cases 20000
    python -m tests.property.mutations --seed 123456 --cases 1     # repeats one case

`make sanitize` runs the same with kernels that were built with AddressSanitizer and
UndefinedBehaviorSanitizer.

A case damages a small file and hands it to the kernels: its pages one behind the other in a buffer
of exactly their size, or its page index and headers; or it damages the file and scans it. Allowed
are a `PageError`, of scans a `LateError`, or values: arrays that are valid, of as many rows as were
asked for, the same for the same rows however they were asked for, and of memory that nobody uses
again.

Case i of a run has the seed `--seed` + i. Batches of cases run in processes that are watched: one
that crashes, reports or hangs fails, and the run goes on behind it.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import lm_datafusion as lm
from lm_datafusion.formats.parquet.codecs import make_decompressor
from lm_datafusion.formats.parquet.conditions import INTEGER_TYPES, integer_type
from lm_datafusion.formats.parquet.kernel_chunk import value_kind
from lm_datafusion.kernels import columns
from lm_datafusion.kernels.columns import (
    TEXT_IN,
    TEXT_LENGTH,
    TEXT_LIKE,
    TEXT_ORDER,
    AllTest,
    Dictionary,
    IntTest,
    TextTest,
    choose_simd,
    filter_rows,
    read_rows,
    take_views,
)
from lm_datafusion.kernels.pages import (
    HEADER_FIELDS,
    PageError,
    PageReader,
    Scratch,
    parse_column_index,
    parse_offset_index,
    walk_pages,
)
from lm_datafusion.predicate.literals import literal_sql
from tests.property.array_checks import bits_of, check_array, content_of
from tests.property.mutated_pages import (
    SOURCES,
    WORDS,
    Laid,
    Source,
    make_source,
    mutate_bytes,
    mutate_chunk,
    mutate_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 2500
MOST_SECONDS = 10.0
START_SECONDS = 120.0
SCRATCH = Scratch()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_case(seed: int) -> str:
    """Runs one case; what came of it.

    Raises:
        AssertionError: Values that are none; any other exception is as wrong.
    """
    rng = random.Random(seed)
    choose_simd(rng.random() < 0.3)
    kind = rng.random()
    try:
        if kind < 0.12:
            return run_structs(rng)
        if kind < 0.2:
            return run_scan(rng)
        return run_pages(rng)
    finally:
        choose_simd()


# --- what the kernels are asked -----------------------------------------------------------------


def exact_buffer(data: bytes) -> tuple[pa.Buffer, np.ndarray]:
    """A buffer without a byte to spare, and the memory behind it."""
    room = np.frombuffer(data, dtype=np.uint8).copy()
    return pa.py_buffer(room), room


def run_structs(rng: random.Random) -> str:
    """Page headers and page indexes."""
    source = make_source(rng.randrange(SOURCES))
    kind = rng.choice(["offset index", "column index", "pages", "noise"])
    data = {
        "offset index": source.offset_index,
        "column index": source.column_index,
        "pages": source.data[source.start : source.stop],
        "noise": rng.randbytes(rng.randint(0, 40)),
    }[kind]
    if kind != "noise" or rng.random() < 0.5:
        data = mutate_bytes(rng, data)
    if rng.random() < 0.1:
        # A field id in its long form.
        data = bytes([rng.randint(1, 12)]) + b"\xfe\xff\xff\xff\x0f" + data
    if rng.random() < 0.05:
        # Structs, or lists of one list, in one another.
        data = bytes([rng.choice([0x1C, 0x19])]) * rng.choice([5, 31, 32, 33, 34, 500]) + data
    buffer, _ = exact_buffer(data)
    outcomes = []
    if kind in ("offset index", "noise"):
        outcomes.append(
            _parse(lambda: parse_offset_index(buffer), lambda found: found.shape[0] == 3)
        )
    if kind in ("column index", "noise"):
        outcomes.append(
            _parse(lambda: parse_column_index(buffer), lambda found: type(found) is dict)
        )
    if kind in ("pages", "noise"):
        start = rng.choice([0, 0, 1, -1, len(data), rng.randint(0, len(data))])
        outcomes.append(
            _parse(
                lambda: walk_pages(buffer, start),
                lambda found: found.shape[1] == len(HEADER_FIELDS) and (found[:, :4] >= 0).all(),
            )
        )
    return "values" if "values" in outcomes else "error"


def _parse(parse: Any, is_right: Any) -> str:
    try:
        found = parse()
    except PageError:
        return "error"
    assert is_right(found), found
    return "values"


def run_pages(rng: random.Random) -> str:
    """Damaged pages, read and filtered one to three times by the same reader."""
    source = make_source(rng.randrange(SOURCES))
    laid = mutate_chunk(rng, source)
    decompress = make_decompressor(source.codec) if source.codec else None
    buffer, _ = exact_buffer(laid.data)
    dictionary, outcome = None, "error"
    if laid.dictionary_start is not None:
        try:
            dictionary = Dictionary(buffer, laid.dictionary_start, decompress)
            if rng.random() < 0.3:
                values = dictionary.to_array(_builder(rng, source, dictionary))
                check_array(values, dictionary.value_count)
        except PageError:
            if rng.random() < 0.7:
                return "error"
    reader = _reader(source)
    made: list[tuple[pa.Array, bytes]] = []
    for _ in range(rng.choice([1, 2, 3])):
        total = laid.row_ends[-1] if 0 <= laid.row_ends[-1] < 200_000 else source.row_count
        rows, start, stop = _wanted(rng, total)
        # The bytes of pages are in memory that is used again.
        buffer, room = exact_buffer(laid.data)
        _set_pages(rng, reader, laid, buffer, decompress, (rows, start, stop))
        count = stop - start if rows is None else len(rows)
        try:
            if rng.random() < 0.5:
                array = read_rows(reader, _builder(rng, source, dictionary), rows, start, stop)
                check_array(array, count)
            else:
                array = _filter(rng, source, reader, dictionary, (rows, start, stop))
            outcome = "values"
        except PageError:
            array = None
        finally:
            reader.release()
        room[:] = 0xAA
        if array is not None:
            check_array(array, len(array))
            made.append((array, content_of(array)))
            _take(rng, array)
            if rng.random() < 0.3:
                _read_again(rng, source, laid, decompress, dictionary, (rows, start, stop), array)
    for array, content in made:
        assert content_of(array) == content, "values changed afterwards"
    return outcome


def _make_builder(source: Source, given: pa.DataType, dictionary: Dictionary | None) -> Any:
    kind = value_kind(source.physical_type, source.fixed_length, source.data_type, given)
    return kind.make(dictionary)


def _reader(source: Source) -> PageReader:
    return PageReader(int(source.is_nullable), source.physical_type, source.fixed_length)


def _take(rng: random.Random, array: pa.Array) -> None:
    """Some values of an array of views."""
    if len(array) and (pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type)):
        start = rng.randrange(len(array))
        rows = [rng.randrange(len(array) - start) for _ in range(rng.choice([0, 1, 9, 64]))]
        taken = take_views(array[start:], np.array(rows, dtype=np.int32))
        check_array(taken, len(rows))
        assert content_of(taken) == [array[start + row].as_py() for row in rows]


def _wanted(rng: random.Random, total: int) -> tuple[np.ndarray | None, int, int]:
    kind = rng.random()
    if kind < 0.35 or not total:
        return None, 0, total
    if kind < 0.5:
        start = rng.randint(0, total)
        return None, start, rng.randint(start, total)
    count = rng.choice([0, 1, 2, min(total, 20), total // 2, total])
    picked = sorted(rng.sample(range(total), min(total, count)))
    return np.array(picked, dtype=np.int32), 0, total


def _set_pages(
    rng: random.Random,
    reader: PageReader,
    laid: Laid,
    buffer: pa.Buffer,
    decompress: Any,
    wanted: tuple[np.ndarray | None, int, int],
) -> None:
    """Hands over the pages that hold rows, all pages, or all but the one that was kept."""
    rows, start, stop = wanted
    first_rows, row_ends = np.array(laid.first_rows), np.array(laid.row_ends)
    touched = np.arange(len(laid.starts))
    if rng.random() < 0.5:
        if rows is None:
            is_touched = (first_rows < stop) & (row_ends > start)
        else:
            is_touched = np.searchsorted(rows, first_rows) < np.searchsorted(rows, row_ends)
        touched = np.flatnonzero(is_touched)
    starts = np.array(laid.starts)[touched]
    if rng.random() < 0.8:
        starts = np.where(touched == reader.kept_page, -1, starts)
    if rng.random() < 0.02:
        starts = np.full(len(touched), -1)
    try:
        reader.set_pages(
            SCRATCH, decompress, buffer, touched, starts, first_rows[touched], row_ends[touched]
        )
    except PageError:
        assert reader.page_count == 0


def _builder(rng: random.Random, source: Source, dictionary: Dictionary | None) -> Any:
    given = source.data_type
    if pa.types.is_string(given):
        given = rng.choice([given, pa.string_view(), pa.binary(), pa.binary_view()])
    elif pa.types.is_binary(given):
        # Bytes are no text: mostly an error.
        given = rng.choice([given, given, pa.binary_view(), pa.string(), pa.string_view()])
    return _make_builder(source, given, dictionary)


def _filter(
    rng: random.Random,
    source: Source,
    reader: PageReader,
    dictionary: Dictionary | None,
    wanted: tuple[np.ndarray | None, int, int],
) -> pa.Array | None:
    rows, start, stop = wanted
    test = _value_test(rng, source)
    answers = None
    if dictionary is not None:
        if test is not None and rng.random() < 0.5:
            answers = dictionary.test(test)
            assert len(answers) == dictionary.value_count
        else:
            bits = [rng.random() < 0.5 for _ in range(dictionary.value_count)]
            answers = np.array(bits, dtype=np.uint8)
    null_passes = rng.random() < 0.2
    builder = None
    if not null_passes and rng.random() < 0.6:
        builder = _builder(rng, source, dictionary)
    found, values = filter_rows(
        reader,
        test if rng.random() < 0.95 else None,
        answers,
        rows,
        start,
        stop,
        null_passes=null_passes,
        builder=builder,
    )
    assert found.dtype == np.int32
    assert (np.diff(found) > 0).all(), "rows do not ascend"
    if len(found):
        asked = np.isin(found, rows) if rows is not None else (found >= start) & (found < stop)
        assert asked.all(), "rows that nobody asked for"
    assert (values is None) == (builder is None)
    if values is not None:
        check_array(values, len(found))
        assert values.null_count == 0
    return values


def _value_test(rng: random.Random, source: Source) -> Any:
    if rng.random() < 0.15:
        # Two conditions on the same value.
        tests = [_single_test(rng, source) for _ in range(2)]
        return None if None in tests else AllTest(*tests)
    return _single_test(rng, source)


def _single_test(rng: random.Random, source: Source) -> Any:
    is_negated = rng.random() < 0.2
    operator = rng.randrange(6)
    number = INTEGER_TYPES.get(integer_type(source.data_type))
    if number is not None:
        literals = [rng.choice([0, 1, -1, 5, 2**31 - 1, -(2**63), 2**63 - 1]) for _ in range(3)]
        members = np.sort(np.array(literals)) if rng.random() < 0.3 else None
        return IntTest(number, operator, literals[0], members, is_negated)
    if source.physical_type != "BYTE_ARRAY":
        return None
    known = [word.encode() if isinstance(word, str) else word for word in source.words]
    pool = [*(word.encode() for word in WORDS), *known]
    parts = [rng.choice(pool)]
    kind = rng.choice([TEXT_LIKE, TEXT_LIKE, TEXT_IN, TEXT_LENGTH, TEXT_ORDER])
    if kind in (TEXT_LIKE, TEXT_IN):
        parts = [rng.choice(pool)[: rng.choice([1, 2, 50])] for _ in range(rng.randint(0, 3))]
    return TextTest(
        kind,
        parts,
        operator=operator,
        length=rng.choice([0, 1, 5, 12, 13, 2**31, 2**63 - 1, -1, -(2**63)]),
        is_anchored_left=rng.random() < 0.3,
        is_anchored_right=rng.random() < 0.3,
        is_negated=is_negated,
    )


def _read_again(
    rng: random.Random,
    source: Source,
    laid: Laid,
    decompress: Any,
    dictionary: Dictionary | None,
    wanted: tuple[np.ndarray | None, int, int],
    array: pa.Array,
) -> None:
    """The same rows from a reader that opens every page again, if all of them can be read."""
    rows, start, stop = wanted
    if len(array) != (stop - start if rows is None else len(rows)):
        return  # of a filter
    reader = _reader(source)
    builder = _make_builder(source, array.type, dictionary)
    buffer, _ = exact_buffer(laid.data)
    numbers = np.arange(len(laid.starts))
    places = (np.array(laid.starts), np.array(laid.first_rows), np.array(laid.row_ends))
    everything = None
    try:
        reader.set_pages(SCRATCH, decompress, buffer, numbers, *places)
        everything = read_rows(reader, builder, None, 0, stop)
    except PageError:
        return
    finally:
        reader.release()
    places_of = np.arange(start, stop) if rows is None else rows
    expected = bits_of(everything)
    # PyArrow cannot take views.
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    expected = expected.cast(plain.get(expected.type, expected.type))
    assert content_of(expected.take(pa.array(places_of))) == content_of(array), "other values"


# --- scans --------------------------------------------------------------------------------------


def run_scan(rng: random.Random) -> str:
    """A damaged file, scanned."""
    source = make_source(rng.randrange(SOURCES))
    data = mutate_file(rng, source)
    condition, row_count = _condition(rng, source)
    names = rng.choice([["c"], ["d", "c"], ["d"]])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "damaged.parquet")
        with open(path, "wb") as file:
            file.write(data)
        try:
            options = lm.ScanOptions(threads=rng.choice([1, 2]))
            table = lm.dataset(path, options=options).to_table(columns=names, filter=condition)
        except lm.LateError:
            return "scan: error"
    for column in table.columns:
        for chunk in column.chunks:
            check_array(chunk, len(chunk))
    assert row_count is None or table.num_rows == row_count, f"{table.num_rows} rows"
    assert table.num_rows <= source.row_count
    return "scan: values"


def _condition(rng: random.Random, source: Source) -> tuple[str | None, int | None]:
    """A condition, and how many rows pass where that cannot depend on the damage."""
    total = source.row_count
    kind = rng.random()
    if kind < 0.15:
        return None, total
    if kind < 0.3:
        return "d % 7 = 3", len(range(3, total, 7))
    if kind < 0.4:
        limit = rng.randint(0, total)
        return f"d >= {limit}", total - limit
    if kind < 0.5 or not source.words or source.fixed_length:
        return rng.choice(["c IS NOT NULL", "c IS NULL"]), None
    literals = [_literal(rng, source) for _ in range(3)]
    if pa.types.is_string(source.data_type) and rng.random() < 0.5:
        return rng.choice(
            ["c LIKE '%o%'", "c LIKE 'a%'", "c <> ''", "octet_length(c) > 5", "c NOT LIKE '%9%'"]
        ), None
    return rng.choice(
        [
            f"c {rng.choice(['=', '<>', '<', '>='])} {literals[0]}",
            f"c IN ({', '.join(literals)})",
            f"c <> {literals[0]} AND d > 3",
        ]
    ), None


def _literal(rng: random.Random, source: Source) -> str:
    value = rng.choice(source.words)
    return literal_sql(pa.scalar(value, source.data_type))


# --- what values are ----------------------------------------------------------------------------


# --- the run ------------------------------------------------------------------------------------


def run_batch(seed: int, count: int, notes: str) -> None:
    """Runs cases one after the other, and says how they went; `notes` has the seed at work."""
    outcomes: collections.Counter[str] = collections.Counter()
    with open(notes, "r+b", buffering=0) as file:
        for case in range(seed, seed + count):
            os.pwrite(file.fileno(), case.to_bytes(8, "little"), 0)
            try:
                outcomes[run_case(case)] += 1
            except BaseException:  # noqa: BLE001 reported with its seed
                outcomes["failure"] += 1
                _say({"seed": case, "failure": traceback.format_exc()})
    _say({"outcomes": outcomes})


def _say(fact: dict[str, Any]) -> None:
    print(json.dumps(fact), flush=True)  # noqa: T201


def watch_batch(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Runs cases in processes of their own; what they printed, and how they ended."""
    stop = seed + count
    while seed < stop:
        with tempfile.TemporaryDirectory() as folder:
            notes = os.path.join(folder, "seed")
            with open(notes, "wb") as file:
                file.write((0).to_bytes(8, "little"))
            command = [sys.executable, *(["-P"] if sys.flags.safe_path else [])]
            command += ["-m", "tests.property.mutations", "--batch", notes]
            command += ["--seed", str(seed), "--cases", str(stop - seed)]
            printed, errors = os.path.join(folder, "printed"), os.path.join(folder, "errors")
            with open(printed, "wb") as out, open(errors, "wb") as err:
                process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT)
                reason = _wait(process, notes)
            with open(printed) as file:
                facts = [json.loads(line) for line in file]
            yield from facts
            if reason is None:
                return
            with open(notes, "rb") as file:
                at = int.from_bytes(file.read(8), "little")
            with open(errors, errors="replace") as file:
                text = file.read()
            yield {"seed": at, "failure": f"{reason}\n{text[-8000:]}"}
            yield {"outcomes": {"crash": 1, "cases before a crash": max(0, at - seed)}}
            if at < seed:
                return  # it did not even start
            seed = at + 1


def _wait(process: subprocess.Popen[bytes], notes: str) -> str | None:
    """Why a process ended before its cases did; None if it did them all."""
    seen, since = b"", time.monotonic()
    while True:
        try:
            code = process.wait(0.5)
        except subprocess.TimeoutExpired:
            with open(notes, "rb") as file:
                now = file.read(8)
            if now != seen:
                seen, since = now, time.monotonic()
            most = MOST_SECONDS if any(now) else START_SECONDS
            if time.monotonic() - since > most:
                process.kill()
                process.wait()
                return f"hangs: over {most:.0f} s"
        else:
            return None if code == 0 else f"ended with {code}"


def _check_sanitized() -> None:
    with open(columns.__file__, "rb") as file:
        data = file.read()
    if b"__asan_report" not in data or b"__ubsan_handle" not in data:
        sys.exit(f"{columns.__file__} was built without sanitizers")


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged pages for the compiled kernels.")
    parser.add_argument("--cases", type=int, default=20_000, help="how many cases to run")
    parser.add_argument("--seed", type=int, help="seed of the first case (default: random)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--stop-after", type=int, default=5, help="failures to show, then stop")
    parser.add_argument("--sanitized", action="store_true", help="kernels must have sanitizers")
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    if arguments.batch:
        run_batch(seed, arguments.cases, arguments.batch)
        return 0
    if arguments.sanitized:
        _check_sanitized()
    print(f"seed {seed}, {arguments.cases} cases, {columns.__file__}", flush=True)  # noqa: T201
    return _run(seed, arguments.cases, arguments.workers, arguments.stop_after)


def _run(seed: int, cases: int, workers: int, stop_after: int) -> int:
    outcomes: collections.Counter[str] = collections.Counter()
    failures, done, started = 0, 0, time.monotonic()
    batch = max(1, min(BATCH, -(-cases // workers)))
    starts = range(seed, seed + cases, batch)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        runs = {
            pool.submit(lambda *at: list(watch_batch(*at)), at, min(batch, seed + cases - at)): at
            for at in starts
        }
        for run in concurrent.futures.as_completed(runs):
            done += min(batch, seed + cases - runs[run])
            for fact in run.result():
                outcomes.update(fact.get("outcomes", {}))
                if "failure" in fact:
                    failures += 1
                    print(  # noqa: T201
                        f"--- seed {fact['seed']} failed; to repeat it:"
                        f" python -m tests.property.mutations --seed {fact['seed']} --cases 1"
                        f" (make sanitize SEED={fact['seed']} CASES=1)\n{fact['failure']}",
                        flush=True,
                    )
            rate = done / (time.monotonic() - started)
            print(f"{done} cases, {failures} failures, {rate:.0f}/s", flush=True)  # noqa: T201
            if failures >= stop_after:
                pool.shutdown(cancel_futures=True)
                break
    for name, count in sorted(outcomes.items()):
        print(f"{count:>10,} {name}")  # noqa: T201
    print(f"{failures} failures in {done} cases from seed {seed}")  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
