"""What pyarrow's classes can do, ours can; and none of it follows a pointer that is not set."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import textwrap

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.dataset import LateFragment, LateScanner

PAIRS = [
    (lm.LateDataset, ds.FileSystemDataset),
    (LateFragment, ds.Fragment),
    (LateScanner, ds.Scanner),
]
# Members that Cython gives to every class, and that touch no pointer of ours; and one that makes
# datasets of pyarrow's.
HARMLESS = {"__pyx_vtable__", "__setstate__", "__new__", "__init__", "from_paths"}


def own_members(base):
    """What a class of pyarrow adds to `object`, private members included."""
    return sorted(
        name
        for name, member in inspect.getmembers(base)
        if name not in HARMLESS and getattr(object, name, None) is not member
        if not (hasattr(object, name) and name not in base.__dict__)
    )


MEMBERS = [(ours, base, name) for ours, base in PAIRS for name in own_members(base)]


def test_there_is_something_to_override():
    names = {(base, name) for _, base, name in MEMBERS}
    assert (ds.FileSystemDataset, "scanner") in names
    assert (ds.FileSystemDataset, "filesystem") in names
    assert (ds.Fragment, "physical_schema") in names
    assert (ds.Scanner, "to_reader") in names
    assert len(names) > 30


@pytest.mark.parametrize(
    ("ours", "base", "name"), MEMBERS, ids=[f"{o.__name__}.{n}" for o, _, n in MEMBERS]
)
def test_every_member_is_overridden(ours, base, name):
    holder = next(cls for cls in ours.__mro__ if name in cls.__dict__)
    assert holder.__module__.startswith("lm_datafusion."), f"{holder.__name__}.{name}"


@pytest.mark.parametrize(
    ("ours", "base", "name"),
    [m for m in MEMBERS if not m[2].startswith("_") and inspect.isroutine(getattr(m[1], m[2]))],
    ids=[
        f"{o.__name__}.{n}"
        for o, _, n in MEMBERS
        if not n.startswith("_") and inspect.isroutine(getattr(_, n))
    ],
)
def test_parameters_of_pyarrow_are_taken(ours, base, name):
    theirs = inspect.signature(getattr(base, name)).parameters
    own = inspect.signature(getattr(ours, name)).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in own.values())
    missing = [n for n in theirs if n not in own and theirs[n].kind is not theirs[n].VAR_KEYWORD]
    assert not missing or takes_any


def test_they_pass_for_those_of_pyarrow(tmp_path):
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"v": [1, 2, 3]}), path)
    dataset = lm.dataset(path)
    fragment = next(dataset.get_fragments())
    assert isinstance(dataset, ds.Dataset)
    assert isinstance(dataset, ds.FileSystemDataset)
    assert isinstance(fragment, ds.Fragment)
    assert isinstance(fragment, LateFragment)
    assert isinstance(dataset.scanner(), ds.Scanner)
    assert not isinstance(dataset.scanner(), ds.Fragment)


CALL_EVERYTHING = """
    import faulthandler, inspect, sys
    import pyarrow.dataset as ds
    import lm_datafusion as lm
    faulthandler.enable()
    dataset = lm.dataset(sys.argv[1])
    fragment = next(dataset.get_fragments())
    scanner = dataset.scanner()
    arguments = {
        "head": (1,), "take": ([0],), "filter": ("v > 1",), "replace_schema": (dataset.schema,),
        "sort_by": ("v",), "join": (dataset, "v"), "join_asof": (dataset, "v", "v", 1),
        "_scanner_options": ({},), "_get_fragments": (None,),
    }
    things = {dataset: ds.FileSystemDataset, fragment: ds.Fragment, scanner: ds.Scanner}
    for thing, base in things.items():
        names = {*dir(base)} - {*dir(object)} - {"__pyx_vtable__"}
        for name in sorted(names) + ["__reduce__", "__repr__", "__str__", "__arrow_c_stream__"]:
            try:
                member = getattr(thing, name)
                if callable(member):
                    result = member(*arguments.get(name, ()))
                    if inspect.isgenerator(result):
                        list(result)
            except Exception as error:
                print(type(thing).__name__, name, type(error).__name__, error)
    print("done")
"""


def test_calling_every_member_does_not_end_the_process(tmp_path):
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"v": [1, 2, 3]}), path)
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CALL_EVERYTHING), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    complaints = run.stdout.splitlines()
    assert complaints.pop() == "done"
    # Makers of other scanners say that they are none.
    assert {line.split()[1] for line in complaints} <= {
        "from_batches",
        "from_dataset",
        "from_fragment",
        "from_paths",
        "__reduce_cython__",
        "__setstate_cython__",
        "__setstate__",
    }, complaints


class TestPickling:
    @pytest.fixture
    def late(self, tmp_path):
        for year in (2023, 2024):
            (tmp_path / f"year={year}").mkdir()
            table = pa.table({"v": range(year, year + 100), "s": [f"t{i}" for i in range(100)]})
            pq.write_table(table, tmp_path / f"year={year}" / "p.parquet", row_group_size=30)
        return lm.dataset(tmp_path, options=lm.ScanOptions(threads=2))

    def test_datasets(self, late):
        copy = pickle.loads(pickle.dumps(late))
        assert copy.to_table().equals(late.to_table())
        assert copy.options == late.options
        assert copy.files == late.files

    @pytest.mark.parametrize(
        "condition", ["v > 2050 AND year = 2024", pc.field("v") > 2050, "s LIKE '%9'"], ids=str
    )
    def test_filters_go_along(self, late, condition):
        filtered = late.filter(condition)
        copy = pickle.loads(pickle.dumps(filtered))
        assert copy.to_table().equals(filtered.to_table())
        assert 0 < copy.count_rows() < late.count_rows()

    def test_fragments(self, late):
        fragments = list(late.filter("v % 2 = 0").get_fragments())
        copies = pickle.loads(pickle.dumps(fragments))
        assert len(copies) == 2
        for copy, fragment in zip(copies, fragments, strict=True):
            assert copy.to_table().equals(fragment.to_table())

    def test_scanners(self, late):
        scanner = late.scanner(columns={"twice": pc.field("v") * 2}, filter="v > 2100")
        copy = pickle.loads(pickle.dumps(scanner))
        assert copy.to_table().equals(scanner.to_table())
        assert copy.count_rows() == 45

    def test_plans(self, late):
        from lm_datafusion.metrics import ScanMetrics
        from lm_datafusion.scan import ScanRun, plan_scan

        scanner = late.filter("v > 2050").scanner(columns=["s"])
        request = lm.ScanRequest(conjuncts=scanner._conjuncts, columns=("s",))
        plan = plan_scan(late._table, request, late.options, ScanMetrics())
        copy = pickle.loads(pickle.dumps(plan))
        batches = list(ScanRun(copy, ScanMetrics()).batches())
        found = pa.Table.from_batches(batches, schema=scanner.projected_schema)
        assert found.equals(scanner.to_table())
        assert found.num_rows == 145

    def test_in_another_process(self, late, tmp_path):
        from lm_datafusion.metrics import ScanMetrics
        from lm_datafusion.scan import plan_scan

        some = late.filter("v > 2050").filter(pc.field("s") != "t5")
        request = lm.ScanRequest(conjuncts=some._conjuncts, columns=("v", "year"))
        plan = plan_scan(some._table, request, some.options, ScanMetrics())
        parcel = tmp_path / "parcel"
        parcel.write_bytes(pickle.dumps((some, list(some.get_fragments()), plan)))
        program = """
            import pickle, sys
            from lm_datafusion.metrics import ScanMetrics
            from lm_datafusion.scan import ScanRun
            dataset, fragments, plan = pickle.load(open(sys.argv[1], "rb"))
            print(sum(dataset.to_table()["v"].to_pylist()))
            print(sum(sum(f.to_table()["v"].to_pylist()) for f in fragments))
            batches = ScanRun(plan, ScanMetrics()).batches()
            print(sum(sum(batch["v"].to_pylist()) for batch in batches))
        """
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), str(parcel)],
            capture_output=True,
            text=True,
            check=False,
        )
        expected = str(sum(some.to_table()["v"].to_pylist()))
        assert run.stdout.split() == [expected] * 3, run.stderr

    def test_errors(self):
        from lm_datafusion import errors

        for error in (
            errors.CorruptFileError("bad", path="p", column="c", offset_bytes=3),
            errors.ColumnNotFoundError("x", ["y"]),
            errors.SqlError("bad", sql="a b", position=2),
            errors.FileChangedError("p changed"),
            errors.OptionError("no"),
        ):
            copy = pickle.loads(pickle.dumps(error))
            assert type(copy) is type(error)
            assert str(copy) == str(error)


class TestNames:
    """`lm_datafusion.dataset` is a room and a function."""

    @pytest.mark.parametrize(
        "first",
        [
            "",
            "lm.LateDataset",
            "import lm_datafusion.dataset",
            "from lm_datafusion.dataset import LateFragment",
            "from lm_datafusion.dataset.dataset import dataset",
        ],
    )
    def test_it_can_be_called_whatever_came_first(self, tmp_path, first):
        pq.write_table(pa.table({"v": [1, 2, 3]}), tmp_path / "v.parquet")
        program = f"""
            import sys
            import lm_datafusion as lm
            {first}
            print(lm.dataset(sys.argv[1], options=lm.ScanOptions(threads=1)).count_rows())
        """
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "v.parquet")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.stdout.split() == ["3"], run.stderr
