from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.cli.box import text_width
from lm_datafusion.cli.console import main
from tests.dataset_files import many_kinds, write_many_kinds
from tests.orc_files import write as write_orc
from tests.parquet_files import CORPUS, CORPUS_FILES, UNREADABLE, each_corpus_file, needs_corpus

ROWS = 4000


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(7)
    return pa.table(
        {
            "sorted": np.arange(ROWS),
            "few": pa.array([f"kind {i % 5}" for i in range(ROWS)]),
            "key": random.integers(0, 2**60, ROWS),
            "long": pa.array([f"{i:020}" * 3 for i in random.permutation(ROWS)]),
            "gaps": pa.array([None if i % 4 else i for i in range(ROWS)]),
        }
    )


@pytest.fixture
def rich(table, tmp_path):
    """Page index, bloom filter, dictionaries that are whole and one that gave up."""
    path = tmp_path / "rich.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=1000,
        max_rows_per_page=100,
        write_page_index=True,
        use_dictionary=["few", "long"],
        dictionary_pagesize_limit=2000,
        write_batch_size=100,
        bloom_filter_options={"key": {"ndv": 1000, "fpp": 0.01}},
        sorting_columns=[pq.SortingColumn(0)],
    )
    return path


@pytest.fixture
def poor(table, tmp_path):
    """Nothing to prune by."""
    path = tmp_path / "poor.parquet"
    pq.write_table(
        table, path, row_group_size=1000, write_statistics=False, use_dictionary=False,
        compression="none",
    )  # fmt: skip
    return path


def run(capfd, *arguments):
    code = main(["inspect", *map(str, arguments)])
    out, err = capfd.readouterr()
    return code, out, err


def described(capfd, *arguments):
    code, out, err = run(capfd, *arguments, "--format", "json")
    assert (code, err) == (0, "")
    return json.loads(out)


def columns_of(capfd, *arguments):
    (file,) = described(capfd, *arguments)
    return {column["name"]: column for column in file["columns"]}


def test_summary(rich, capfd):
    code, out, err = run(capfd, rich)
    assert (code, err) == (0, "")
    assert "4,000 rows in 4 row groups of 1,000 rows" in out
    assert "parquet-cpp-arrow" in out
    assert "sorted by   sorted" in out
    assert "row groups follow each other by sorted" in out
    assert "SNAPPY" in out


def test_facts_of_a_rich_file(rich, capfd):
    columns = columns_of(capfd, rich)
    size = os.path.getsize(rich)
    for column in columns.values():
        assert column["row_groups_with_bounds"] == 4
        assert column["row_groups_with_page_index"] == 4
        assert 0 < column["compressed_bytes"] < size
        assert column["share_of_file"] == column["compressed_bytes"] / size
    assert columns["sorted"]["overlap"] == pytest.approx(0.25)
    assert columns["sorted"]["is_ascending"]
    assert columns["key"]["overlap"] > 0.9
    assert columns["key"]["bloom_filter_bytes"] > 0
    assert columns["sorted"]["bloom_filter_bytes"] == 0
    assert columns["gaps"]["null_count"] == 3000
    assert columns["few"]["dictionary"] == "all"
    assert columns["few"]["distinct"] == 5
    assert columns["few"]["encodings"] == ["RLE_DICTIONARY"]
    assert columns["long"]["dictionary"] == "part"
    assert set(columns["long"]["encodings"]) == {"RLE_DICTIONARY", "PLAIN"}
    assert columns["key"]["dictionary"] == "none"
    assert columns["key"]["distinct"] is None


def test_verdicts_of_a_rich_file(rich, capfd):
    columns = columns_of(capfd, rich)
    assert "pages by page index" in columns["sorted"]["can_be_pruned"]
    assert columns["sorted"]["cannot_be_pruned"] == []
    assert "row groups by bloom filter, for = and IN" in columns["key"]["can_be_pruned"]
    assert any("overlap" in text for text in columns["key"]["cannot_be_pruned"])
    assert any("by dictionary" in text for text in columns["few"]["can_be_pruned"])
    assert any("fell back" in text for text in columns["long"]["cannot_be_pruned"])
    assert any("bloom" in text for text in columns["long"]["advice"])


def test_a_poor_file_says_what_is_missing_and_why(poor, capfd):
    columns = columns_of(capfd, poor)
    for column in columns.values():
        assert column["can_be_pruned"] == []
        assert column["row_groups_with_bounds"] == 0
        assert column["overlap"] is None
        reasons = " ".join(column["cannot_be_pruned"])
        assert "row groups by statistics: the file has none" in reasons
        assert "there is no page index" in reasons
        assert "rewrite with write_page_index=True" in column["advice"]
        assert "write statistics (write_statistics=True)" in column["advice"]
    _, out, _ = run(capfd, poor)
    assert "UNCOMPRESSED" in out
    assert out.count("rewrite with write_page_index=True") == 1  # columns of a kind stand together


def test_shuffled_rows_are_pointed_out(tmp_path, capfd):
    values = np.random.default_rng(3).permutation(1000)
    pq.write_table(pa.table({"a": values}), tmp_path / "f.parquet", row_group_size=100)
    hint = "no column tells the row groups apart"
    assert hint in run(capfd, tmp_path / "f.parquet")[1]
    assert hint not in run(capfd, tmp_path / "f.parquet", "--column", "a")[1]


def test_one_row_group_has_no_overlap(people, capfd):
    columns = columns_of(capfd, people)
    assert columns["id"]["overlap"] is None
    assert any("only one" in text for text in columns["id"]["cannot_be_pruned"])


def test_nan_and_nulls_give_no_bounds(tmp_path, capfd):
    table = pa.table(
        {
            "nan": [float("nan")] * 10,
            "null": pa.array([None] * 10, pa.int64()),
            "mixed": [float("nan"), 1.0] * 5,
        }
    )
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=5, write_page_index=True)
    columns = columns_of(capfd, tmp_path / "f.parquet", "--row-groups", "--pages")
    assert columns["nan"]["row_groups_with_bounds"] == 0
    assert columns["null"]["row_groups_with_bounds"] == 0
    assert columns["null"]["null_count"] == 10
    assert columns["mixed"]["row_groups_with_bounds"] == 2
    for name in ("nan", "null"):
        assert columns[name]["chunks"][0]["minimum"] is None
        assert columns[name]["page_overlap"] is None
        assert columns[name]["cannot_be_pruned"]


def test_row_groups(rich, capfd):
    _, out, _ = run(capfd, rich, "--row-groups")
    assert "first byte" in out
    _, out, _ = run(capfd, rich, "--row-groups", "--column", "sorted")
    lines = out.splitlines()
    start = lines.index("Row groups of sorted")
    assert lines[start + 2].split()[0] == "0"
    assert lines[start + 5].split()[-4:-2] == ["3000", "3999"]
    (column,) = columns_of(capfd, rich, "--row-groups", "--column", "few").values()
    assert [chunk["minimum"] for chunk in column["chunks"]] == ["kind 0"] * 4
    assert [chunk["pages"] for chunk in column["chunks"]] == [10] * 4


def test_pages(rich, capfd):
    _, out, _ = run(capfd, rich, "--pages")
    start = out.splitlines().index("Pages")
    assert out.splitlines()[start + 2].split()[:3] == ["sorted", "40", "100"]
    (column,) = columns_of(capfd, rich, "--pages", "--column", "sorted").values()
    assert [page["minimum"] for page in column["pages"]] == list(range(0, ROWS, 100))
    assert column["page_overlap"] == pytest.approx(1 / 40)
    _, out, _ = run(capfd, rich, "--pages", "--column", "sorted")
    assert len(out[out.index("Pages of sorted") :].split("\n\n")[0].splitlines()) == 42


def test_pages_without_an_index_are_found_by_their_headers(poor, capfd):
    (column,) = columns_of(capfd, poor, "--pages", "--column", "sorted").values()
    assert [page["first_row"] for page in column["pages"]] == [0] * 4
    assert column["pages"][0]["minimum"] is None
    assert column["page_overlap"] is None


def test_columns_of_every_kind(tmp_path, capfd):
    path = tmp_path / "kinds.parquet"
    write_many_kinds(path)
    columns = columns_of(capfd, path, "--row-groups", "--pages")
    names = set(many_kinds().column_names) - {"lst", "st"}
    assert set(columns) == names | {"lst.list.element", "st.x", "st.y"}
    assert columns["lst.list.element"]["can_be_pruned"] == []
    assert "lists" in columns["lst.list.element"]["cannot_be_pruned"][0]
    assert columns["tz"]["chunks"][0]["minimum"] == "2024-01-01T01:00:00.000000Z"
    assert columns["dec"]["chunks"][0]["minimum"] == -0.99
    assert columns["bin"]["chunks"][0]["minimum"] == "0100ff"
    assert run(capfd, path, "--row-groups", "--pages", "--column", "st")[0] == 0


def test_a_struct_stands_for_its_fields(tmp_path, capfd):
    pq.write_table(pa.table({"st": [{"x": 1, "y": "a"}], "stx": [1]}), tmp_path / "f.parquet")
    assert list(columns_of(capfd, tmp_path / "f.parquet", "--column", "st")) == ["st.x", "st.y"]
    assert list(columns_of(capfd, tmp_path / "f.parquet", "--column", "st.y")) == ["st.y"]


def test_a_hundred_columns_can_be_read(tmp_path, capfd):
    names = [f"a_rather_long_name_of_a_column_{index:03}" for index in range(105)]
    table = pa.table({name: [f"value {i}" for i in range(10)] for name in names})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=5)
    code, out, _ = run(capfd, tmp_path / "f.parquet")
    assert code == 0
    lines = out.splitlines()[1:]
    assert max(map(text_width, lines)) <= 100
    assert len(lines) < 2 * 105 + 80
    assert all(name in out for name in names)


def test_files_without_rows(tmp_path, capfd):
    empty = pa.table({"a": pa.array([], pa.int64())})
    pq.write_table(empty, tmp_path / "f.parquet")
    with pq.ParquetWriter(tmp_path / "g.parquet", empty.schema):
        pass
    assert run(capfd, tmp_path / "f.parquet", "--row-groups", "--pages")[0] == 0
    code, out, _ = run(capfd, tmp_path / "g.parquet", "--row-groups", "--pages")
    assert code == 0
    assert "0 rows in 0 row groups" in out


def test_folders_and_several_files(rich, poor, tmp_path, capfd):
    assert len(described(capfd, tmp_path)) == 2
    code, out, _ = run(capfd, rich, poor)
    assert code == 0
    assert out.count("written by") == 2
    assert "\n\n" + str(poor) in out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"PAR1", "too few"),
        (b"just some text that goes on for a while", "not a Parquet file"),
        (b"PAR1" + b"\0" * 100 + (90).to_bytes(4, "little") + b"PAR1", "footer cannot be read"),
        (b"PAR1" + b"\0" * 20 + (9000).to_bytes(4, "little") + b"PAR1", "does not fit"),
    ],
    ids=["empty", "short", "text", "zeros", "long footer"],
)
def test_files_that_are_no_parquet_files(content, message, tmp_path, capfd):
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    code, out, err = run(capfd, path)
    assert (code, out) == (1, "")
    assert err.startswith(f"lm-datafusion: {path}: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_bad_file_does_not_hide_the_others(people, tmp_path, capfd):
    (tmp_path / "bad.parquet").write_text("text, not Parquet")
    missing = tmp_path / "missing.parquet"
    code, out, err = run(capfd, missing, tmp_path, "--format", "json")
    assert code == 1
    assert len(err.splitlines()) == 2
    assert [file["path"] for file in json.loads(out)] == [str(people)]
    assert run(capfd, missing, "--format", "json")[:2] == (1, "[]\n")


def test_a_file_cut_short(rich, capfd):
    rich.write_bytes(rich.read_bytes()[:-100])
    code, _, err = run(capfd, rich)
    assert code == 1
    assert "cut short" in err


def test_an_unknown_column_is_an_error_with_a_hint(people, capfd):
    code, _, err = run(capfd, people, "--column", "nam")
    assert code == 1
    assert 'did you mean "name"?' in err


@each_corpus_file
def test_files_of_other_writers(path, capfd):
    code, out, err = run(capfd, path, "--row-groups", "--pages")
    assert (code, err) == (0, "")
    assert max(map(text_width, out.splitlines()[1:])) <= 100
    (file,) = described(capfd, path, "--row-groups", "--pages")
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    assert file["row_groups"] == groups
    assert file["rows"] == sum(groups)  # the footer's own sum is wrong in one of the files


@needs_corpus
@pytest.mark.parametrize("name", ["PARQUET-1481.parquet", UNREADABLE.name])
def test_damaged_files_of_the_corpus(name, capfd):
    folders = [CORPUS / "parquet-testing" / folder for folder in ("bad_data", "data")]
    path = next(folder / name for folder in folders if (folder / name).exists())
    code, out, err = run(capfd, path)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert CORPUS_FILES


# ---- ORC ---------------------------------------------------------------------------------------


@pytest.fixture
def orc(table, tmp_path):
    """Stripes of some row groups each; a bloom filter on `key`."""
    return write_orc(
        tmp_path / "t.orc",
        table,
        row_index_stride=100,
        batch_size=100,
        stripe_size=50_000,
        compression="zlib",
        dictionary_key_size_threshold=1,
        bloom_filter_columns=[3],
    )


def test_an_orc_file(orc, capsys):
    assert main(["inspect", orc]) == 0
    text = capsys.readouterr().out
    assert "ORC C++" in text
    assert "ZLIB" in text
    assert "+ stripes by statistics" in text
    assert "+ row groups by bloom filter, for = and IN" in text
    assert "+ row groups by row index" in text
    assert "page" not in text.split("What can be pruned")[1]
    assert "by dictionary" not in text, "ORC's dictionaries are not used to prune"


def test_an_orc_file_as_json(orc, table, capsys):
    assert main(["inspect", orc, "--format", "json", "--row-groups", "--pages"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["rows"] == ROWS
    assert len(found["row_groups"]) > 1
    columns = {column["name"]: column for column in found["columns"]}
    assert [*columns] == table.column_names
    assert columns["gaps"]["null_count"] == ROWS * 3 // 4
    assert columns["few"]["dictionary"] == "all"
    assert columns["few"]["distinct"] == 5
    assert columns["key"]["bloom_filter_bytes"] > 0
    pages = columns["sorted"]["pages"]
    assert len(pages) == ROWS // 100
    assert [(page["minimum"], page["maximum"]) for page in pages[:2]] == [(0, 99), (100, 199)]
    assert sum(page["row_count"] for page in pages) == ROWS
    stored = sum(chunk["compressed_bytes"] for c in columns.values() for chunk in c["chunks"])
    assert stored < os.path.getsize(orc)
