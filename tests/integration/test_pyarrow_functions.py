"""Every public function of PyArrow that takes a dataset, a fragment or a scanner, with ours.

Each call runs in another process: a call that ends the process is a failed test. A call gives the
rows that PyArrow's own dataset gives, or the error that is expected of it, and never other rows.
"""

from __future__ import annotations

import functools
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import acero

import lm_datafusion as lm
from lm_datafusion.dataset.extent import Extent

ROWS = 40
REFUSED = "OptionError"
NO_FRAGMENT = NO_SCANNER = "TypeError"


def write_files(root):
    for year in ("2023", "2024", "__HIVE_DEFAULT_PARTITION__"):
        folder = Path(root, f"year={year}")
        folder.mkdir()
        start = len(os.listdir(root)) * 100
        numbers = range(start, start + ROWS)
        table = pa.table(
            {
                "id": pa.array(numbers, pa.int64()),
                "text": [None if i % 7 == 0 else f"text {i % 5}" for i in numbers],
                "part": [i / 8 for i in numbers],
            }
        )
        if year == "2024":
            # A file without a column, and with one of a narrower type.
            table = table.drop_columns("part").set_column(0, "id", table["id"].cast(pa.int32()))
        pq.write_table(table, folder / "f.parquet", row_group_size=15)


ABOVE = pc.field("id") > 120
KINDS = {
    "whole": (lambda late: late, lambda table: table),
    "expression": (lambda late: late.filter(ABOVE), lambda table: table.filter(ABOVE)),
    "SQL": (lambda late: late.filter("id > 120"), lambda table: table.filter(ABOVE)),
    "limit": (
        lambda late: late.with_extent(Extent(limit=7)),
        lambda table: table.slice(0, 7),
    ),
    "reverse": (
        lambda late: late.with_extent(Extent(is_reverse=True)),
        lambda table: table.take(pa.array(range(table.num_rows)[::-1])),
    ),
}


def written(source, **options):
    with tempfile.TemporaryDirectory() as folder:
        ds.write_dataset(source, folder, **({"format": "parquet"} | options))
        return ds.dataset(folder, format=options.get("format", "parquet")).to_table()


def written_in_partitions(source):
    with tempfile.TemporaryDirectory() as folder:
        ds.write_dataset(
            source, folder, format="parquet", partitioning=["year"], partitioning_flavor="hive"
        )
        return ds.dataset(folder, partitioning="hive").to_table()


def written_by_parquet(source):
    with tempfile.TemporaryDirectory() as folder:
        pq.write_to_dataset(source, folder)
        return pq.read_table(folder)


def scanned_by_a_node(dataset, **options):
    scan = acero.Declaration("scan", acero.ScanNodeOptions(dataset, **options))
    # A node adds columns of its own.
    names = dataset.schema.names
    project = acero.ProjectNodeOptions([pc.field(name) for name in names], names)
    nodes = [scan, acero.Declaration("project", project)]
    return acero.Declaration.from_sequence(nodes).to_table()


def opened(dataset):
    """The dataset after PyArrow has read it."""
    ds.Scanner.from_dataset(dataset).head(1)
    return dataset


OTHER = pa.table({"id": pa.array([101, 130, 202, 999], pa.int64()), "other": ["a", "b", "c", "d"]})
# Of calls that give no rows.
DONE = pa.table({"done": [True]})
# By name: what is called with a dataset; what it gives, of the rows of that dataset.
CALLS = {
    "dataset.Scanner.from_dataset": (
        lambda d: ds.Scanner.from_dataset(d).to_table(),
        lambda t: t,
    ),
    "dataset.Scanner.from_dataset, columns and filter": (
        lambda d: ds.Scanner.from_dataset(
            d, columns=["text"], filter=pc.field("year") == 2024
        ).to_table(),
        lambda t: t.filter(pc.field("year") == 2024).select(["text"]),
    ),
    "dataset.Scanner.from_dataset, count": (
        lambda d: pa.table({"n": [ds.Scanner.from_dataset(d).count_rows()]}),
        lambda t: pa.table({"n": [t.num_rows]}),
    ),
    "dataset.Scanner.from_batches(dataset)": (
        lambda d: ds.Scanner.from_batches(d).to_table(),
        lambda t: t,
    ),
    "dataset.Scanner.from_batches(scanner)": (
        lambda d: ds.Scanner.from_batches(d.scanner()).to_table(),
        lambda t: t,
    ),
    "dataset.Scanner.from_fragment": (
        lambda d: [ds.Scanner.from_fragment(f) for f in d.get_fragments()],
        NO_FRAGMENT,
    ),
    "dataset.write_dataset(dataset)": (written, lambda t: t),
    "dataset.write_dataset(scanner)": (lambda d: written(d.scanner()), lambda t: t),
    "dataset.write_dataset(scanner of a filter)": (
        lambda d: written(d.scanner(filter=pc.field("id") < 210)),
        lambda t: t.filter(pc.field("id") < 210),
    ),
    "dataset.write_dataset(fragments)": (
        lambda d: pa.concat_tables([written(f) for f in d.get_fragments()]),
        lambda t: t,
    ),
    "dataset.write_dataset(filter)": (
        lambda d: written(d.filter("id < 210")),
        lambda t: t.filter(pc.field("id") < 210),
    ),
    "dataset.write_dataset in IPC": (lambda d: written(d, format="ipc"), lambda t: t),
    "dataset.write_dataset in partitions": (written_in_partitions, lambda t: t),
    "dataset.write_dataset without a format": (
        lambda d: written(d, format=None),
        "ValueError",
    ),
    "dataset.dataset([late, late])": (
        lambda d: ds.dataset([d, d]).to_table(),
        lambda t: pa.concat_tables([t, t]),
    ),
    "dataset.dataset([late, other])": (
        lambda d: ds.dataset([d, ds.InMemoryDataset(d.to_table())]).to_table(),
        lambda t: pa.concat_tables([t, t]),
    ),
    "dataset.dataset([late]), schema": (
        lambda d: ds.dataset([d], schema=pa.schema([("id", pa.int64())])).to_table(),
        lambda t: t.select(["id"]),
    ),
    "dataset.dataset(late)": (ds.dataset, "TypeError"),
    "dataset.dataset([fragments])": (lambda d: ds.dataset(list(d.get_fragments())), "TypeError"),
    "dataset.UnionDataset": (lambda d: ds.UnionDataset(d.schema, [d, d]).to_table(), REFUSED),
    "dataset.UnionDataset, count": (
        lambda d: ds.UnionDataset(d.schema, [d]).count_rows(),
        REFUSED,
    ),
    "dataset.UnionDataset of an open one": (
        lambda d: ds.UnionDataset(d.schema, [opened(d), d]).to_table(),
        lambda t: pa.concat_tables([t, t]),
    ),
    "dataset.UnionDataset.children": (
        lambda d: ds.dataset([d]).children[0].to_table(),
        lambda t: t,
    ),
    "dataset.FileSystemDataset(fragments)": (
        lambda d: ds.FileSystemDataset(d.get_fragments(), d.schema, d.format, d.filesystem),
        NO_FRAGMENT,
    ),
    "dataset.InMemoryDataset(late)": (ds.InMemoryDataset, "TypeError"),
    "dataset.InMemoryDataset(reader)": (
        lambda d: ds.InMemoryDataset(d.scanner().to_reader()).to_table(),
        lambda t: t,
    ),
    "dataset.get_partition_keys": (
        lambda d: (
            [ds.get_partition_keys(f.partition_expression) for f in d.get_fragments()] and DONE
        ),
        lambda _: DONE,
    ),
    "dataset.Dataset.to_table": (ds.Dataset.to_table, lambda t: t),
    "dataset.Dataset.head": (lambda d: ds.Dataset.head(d, 3), lambda t: t.slice(0, 3)),
    "dataset.Dataset.get_fragments": (
        lambda d: pa.concat_tables([f.to_table() for f in d._get_fragments(None)]),
        lambda t: t,
    ),
    "dataset.Dataset.schema": (
        lambda d: ds.Dataset.schema.__get__(d).empty_table(),
        lambda t: t.slice(0, 0),
    ),
    "dataset.Dataset.join(late)": (
        lambda d: ds.InMemoryDataset(OTHER).join(d, "id", join_type="inner").to_table(),
        lambda t: OTHER.join(t, "id", join_type="inner"),
    ),
    "dataset.Dataset.join_asof(late)": (
        lambda d: (
            ds.InMemoryDataset(OTHER.select(["id"]))
            .join_asof(d.sort_by("id"), on="id", by=[], tolerance=-5)
            .to_table()
        ),
        lambda t: OTHER.select(["id"]).join_asof(t.sort_by("id"), on="id", by=[], tolerance=-5),
    ),
    "Table.join(late)": (
        lambda d: OTHER.join(d, "id", join_type="left outer"),
        lambda t: OTHER.join(t, "id", join_type="left outer"),
    ),
    "LateDataset.join": (
        lambda d: d.join(ds.InMemoryDataset(OTHER), "id", join_type="inner").to_table(),
        lambda t: t.join(OTHER, "id", join_type="inner"),
    ),
    "acero.ScanNodeOptions": (scanned_by_a_node, lambda t: t),
    "acero.ScanNodeOptions in order": (
        lambda d: scanned_by_a_node(d, require_sequenced_output=True, implicit_ordering=True),
        lambda t: t,
    ),
    "acero.RecordBatchReaderSourceNodeOptions": (
        lambda d: acero.Declaration(
            "record_batch_reader_source",
            acero.RecordBatchReaderSourceNodeOptions(d.scanner().to_reader()),
        ).to_table(),
        lambda t: t,
    ),
    "parquet.ParquetDataset(files)": (
        lambda d: pq.ParquetDataset(d.files, filesystem=d.filesystem, schema=d.schema) and DONE,
        lambda _: DONE,
    ),
    # PyArrow removes the target of a write that failed: in memory there is none.
    "parquet.write_table(late)": (lambda d: pq.write_table(d, io.BytesIO()), "TypeError"),
    "parquet.write_to_dataset(late)": (
        written_by_parquet,
        lambda t: t,
    ),
    "table(late)": (pa.table, lambda t: t),
    "table(scanner)": (lambda d: pa.table(d.scanner()), lambda t: t),
    "RecordBatchReader.from_stream(late)": (
        lambda d: pa.RecordBatchReader.from_stream(d).read_all(),
        lambda t: t,
    ),
}
# What PyArrow reads by itself; refused where it would give other rows.
BY_PYARROW = {
    "dataset.Scanner.from_dataset",
    "dataset.Scanner.from_dataset, columns and filter",
    "dataset.Scanner.from_dataset, count",
    "dataset.UnionDataset of an open one",
    "dataset.Dataset.join(late)",
    "Table.join(late)",
    "acero.ScanNodeOptions",
    "acero.ScanNodeOptions in order",
}
UNIONS = {
    "dataset.dataset([late, late])",
    "dataset.dataset([late, other])",
    "dataset.dataset([late]), schema",
    "dataset.UnionDataset.children",
}


def expectation(kind, call):
    """The name of an error, or a function from the rows of the dataset to the result."""
    expected = CALLS[call][1]
    if kind != "whole" and call in UNIONS:
        return "ValueError"
    if kind != "whole" and call in BY_PYARROW:
        return REFUSED
    return expected


def say(*words):
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def run_calls(root, kind, names):
    """What runs in another process: prints a line before and after each call."""
    for name in names:
        say("begin", name)
        late = KINDS[kind][0](lm.dataset(root))
        stock = ds.dataset(root, schema=lm.dataset(root).schema, partitioning="hive")
        memory = KINDS[kind][1](stock.to_table())
        expected = expectation(kind, name)
        try:
            found = CALLS[name][0](late)
        except Exception as error:  # noqa: BLE001 any may be expected
            names_of_error = [cls.__name__ for cls in type(error).__mro__]
            is_right = expected in names_of_error
            outcome = f"{type(error).__name__}: {error}"
        else:
            is_right, outcome = compare(found, expected, memory)
        say("end", name, is_right, outcome)


def compare(found, expected, memory):
    if isinstance(expected, str):
        return False, f"{expected} was expected, not {found!r}"
    wanted = expected(memory)
    if sorted_rows(found, wanted) == sorted_rows(wanted, wanted):
        return True, f"{found.num_rows} rows"
    return False, f"{found.num_rows} rows, not these {wanted.num_rows}: {found.to_pylist()[:3]}"


def sorted_rows(table, like):
    return sorted(map(repr, table.select(like.column_names).to_pylist()))


@functools.cache
def outcomes(kind):
    """By call: whether it was right, and what it gave; a call that ends the process is neither."""
    found = {}
    with tempfile.TemporaryDirectory() as root:
        write_files(root)
        while left := [name for name in CALLS if name not in found]:
            program = f"from {__name__} import run_calls; run_calls({root!r}, {kind!r}, {left!r})"
            run = subprocess.run(
                [sys.executable, "-X", "faulthandler", "-c", program],
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
                cwd=Path(__file__).parents[2],
            )
            for line in run.stdout.splitlines():
                what, name, *outcome = json.loads(line)
                found[name] = outcome if what == "end" else (False, f"crash: {run.stderr[-3000:]}")
            assert left[0] in found, run.stderr
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_the_rows_of_the_dataset_or_an_error(kind, call):
    is_right, outcome = outcomes(kind)[call]
    assert is_right, outcome
