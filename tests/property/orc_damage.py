"""Damaged ORC files: rows, or an error that names the file; no other error, no hang.

    python -m tests.property.orc_damage --cases 2000
    python -m tests.property.orc_damage --seed 7 --cases 1      # replays one case

A case changes some bytes of a file, half of the time in its metadata, and reads it in several ways.
ORC has no checksums: other rows than before are allowed. PyArrow's decoder crashes on some damaged
values, so it is left out unless `--decode` is given: tails, indexes, statistics and cuts are read.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback

import lm_datafusion as lm
from lm_datafusion.cli.file_profile import load_pages, load_profile
from lm_datafusion.errors import LateError
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.formats.orc import decode
from lm_datafusion.predicate.kinds import without_unions
from tests.orc_files import CODECS, makers, opened, write
from tests.property.orc_cases import random_selection

# A file is read in milliseconds; a case that takes this long hangs.
_LIMIT_S = 60


def run_case(chance: random.Random, folder: str) -> str:
    """Damages a file and reads it; returns `rows` or the name of the error."""
    path = os.path.join(folder, "damaged.orc")
    kinds = chance.sample(sorted(makers(chance)), 3)
    write(
        path,
        {kind: makers(chance)[kind](600) for kind in kinds},
        compression=chance.choice(CODECS),
        row_index_stride=chance.choice((50, 64)),
        dictionary_key_size_threshold=chance.choice((0, 1)),
        bloom_filter_columns=[1, 2],
    )
    with opened(path) as (file, facts):
        stripe = facts.load_stripe(file, 0).information
    damage(chance, path, stripe)
    FACTS.clear()
    outcomes = set()
    for use in (read_whole, read_some, prune, plan, scan, inspect):
        try:
            use(chance, path, kinds)
            outcomes.add("rows")
        except LateError as error:
            if "damaged.orc" not in str(error):
                raise AssertionError(f"{error!r} does not name the file") from error
            outcomes.add(type(error).__name__)
    return ", ".join(sorted(outcomes))


def damage(chance: random.Random, path: str, stripe) -> None:
    """Changes, inserts or cuts bytes; half of the time in an index, a footer or the tail."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    areas = [
        (stripe.offset, stripe.offset + stripe.index_length),
        (stripe.footer_offset, stripe.stop),
        (stripe.stop, len(data)),
    ]
    for _ in range(chance.randint(1, 4)):
        start, stop = chance.choice(areas) if chance.random() < 0.5 else (3, len(data))
        if start >= min(stop, len(data)):
            continue
        position = chance.randrange(start, min(stop, len(data)))
        kind = chance.randrange(8)
        if kind < 6:
            data[position] = chance.choice((0, 255, 128, data[position] ^ 1 << chance.randrange(8)))
        elif kind == 6:
            data[position:position] = chance.randbytes(chance.randint(1, 4))
        else:
            del data[position : position + chance.randint(1, 4)]
    with open(path, "wb") as file:
        file.write(data)


def read_whole(_chance, path, _kinds):
    lm.orc_reader(path).to_table()


def read_some(chance, path, kinds):
    reader = lm.orc_reader(path)
    columns = [name for name in kinds if name in reader.schema.names][:2]
    selection = random_selection(chance, min(reader.total_rows, 10**6))
    reader.with_row_selection(selection).with_columns(columns).to_table()


def prune(_chance, path, kinds):
    reader = lm.orc_reader(path)
    for name in set(kinds) & set(reader.condition_schema.names):
        reader.row_selection_from_row_index(f'"{name}" IS NULL')


def plan(chance, path, _kinds):
    reader = lm.orc_reader(path)
    selection = random_selection(chance, min(reader.total_rows, 10**6))
    reader.with_row_selection(selection).scan_ranges()


def scan(chance, path, kinds):
    """A dataset, by a condition on one column."""
    dataset = lm.dataset(path)
    names = [name for name in kinds if name in dataset.schema.names]
    asked = [name for name in names if name in without_unions(dataset.schema).names]
    condition = f'"{chance.choice(asked)}" IS NOT NULL' if asked else None
    order = {"reverse": chance.random() < 0.3, "limit": chance.choice((None, 5))}
    dataset.to_table(columns=names[:2], filter=condition, **order)


def inspect(_chance, path, kinds):
    """Sizes, encodings and bounds, as `lm-datafusion inspect` shows them."""
    profile = load_profile(path)
    for column in profile.columns:
        if column.name in kinds:
            load_pages(path, column.name)


def _late(_signal, _frame):
    raise TimeoutError("a case takes too long")


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged ORC files.")
    parser.add_argument("--cases", type=int, default=1000, help="how many cases to run")
    parser.add_argument("--seed", type=int, help="seed of the first case (default: random)")
    parser.add_argument(
        "--decode", action="store_true", help="with PyArrow's decoder, which may crash"
    )
    arguments = parser.parse_args()
    if not arguments.decode:
        leave_decoder_out()
    seed = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {arguments.cases} cases", flush=True)  # noqa: T201
    seen, failures, started = {}, 0, time.monotonic()
    signal.signal(signal.SIGALRM, _late)
    for case in range(seed, seed + arguments.cases):
        signal.alarm(_LIMIT_S)
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = run_case(random.Random(case), folder)
                seen[outcome] = seen.get(outcome, 0) + 1
            except BaseException:  # noqa: BLE001 reported with its seed
                failures += 1
                print(f"seed {case}:\n{traceback.format_exc()}", flush=True)  # noqa: T201
        signal.alarm(0)
    print(f"{failures} failures in {time.monotonic() - started:.0f} s; {seen}")  # noqa: T201
    return 1 if failures else 0


def leave_decoder_out() -> None:
    """Refuses the rows of splices after they are made."""
    module = decode.orc

    class NoRows:
        """The schema of a splice, and a refusal of its rows."""

        def __init__(self, source):
            self._source = source

        @property
        def schema(self):
            return module.ORCFile(self._source).schema

        def read_stripe(self, _index):
            raise ValueError("not decoded")

    decode.orc = type("NoOrc", (), {"ORCFile": NoRows})


if __name__ == "__main__":
    sys.exit(main())
