"""ORC files of other writers: equal to what PyArrow reads, or an error that names the file."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyarrow import orc

import lm_datafusion as lm
from lm_datafusion.errors import LateError, UnsupportedFeatureError
from tests.dataset_files import same_values
from tests.orc_files import CORPUS, needs_corpus
from tests.property.orc_cases import random_selection

FILES = sorted(CORPUS.rglob("*.orc")) if CORPUS.exists() else []
ENCRYPTED = [path for path in FILES if path.parent.name == "encrypted"]


def read_by_pyarrow(path):
    """The stripes of a file; None if PyArrow cannot read it."""
    try:
        file = orc.ORCFile(str(path))
        file.read()
    except (OSError, pa.ArrowException):
        return None
    return file


READABLE = [path for path in FILES if path not in ENCRYPTED and read_by_pyarrow(path) is not None]
OTHERS = [path for path in FILES if path not in READABLE and path not in ENCRYPTED]


def named(paths):
    return [pytest.param(path, id=path.name) for path in paths]


@needs_corpus
def test_the_corpus_is_complete():
    assert len(READABLE) >= 25
    assert len(OTHERS) >= 5
    assert len(ENCRYPTED) == 2


@needs_corpus
@pytest.mark.parametrize("path", named(READABLE))
def test_whole_files_and_random_rows(path):
    file, reader = orc.ORCFile(str(path)), lm.orc_reader(path)
    whole = file.read()
    assert reader.schema.equals(file.schema, check_metadata=True)
    same_values(reader.to_table(), whole)
    chance = random.Random(path.name)
    names = whole.column_names
    for _ in range(8):
        selection = random_selection(chance, whole.num_rows)
        columns = chance.sample(names, chance.randint(min(1, len(names)), len(names)))
        found = reader.with_row_selection(selection).with_columns(columns).to_table()
        expected = whole.select(columns).combine_chunks()
        same_values(found, expected.take(pa.array(selection.to_indices())))


@needs_corpus
@pytest.mark.parametrize("path", named(READABLE))
def test_random_row_groups_of_random_stripes(path):
    file, reader = orc.ORCFile(str(path)), lm.orc_reader(path)
    stride, chance = file.row_index_stride or 1000, random.Random(path.name)
    names = reader.schema.names
    for _ in range(6):
        if not file.nstripes:
            break
        index = chance.randrange(file.nstripes)
        stripe = file.read_stripe(index)
        starts = [r for r in range(0, stripe.num_rows, stride) if chance.random() < 0.4]
        ranges = [(start, min(start + stride, stripe.num_rows)) for start in starts]
        selection = lm.RowSelection.from_consecutive_ranges(ranges, stripe.num_rows)
        columns = chance.sample(names, chance.randint(1, len(names)))
        narrowed = reader.with_stripes([index]).with_row_selection(selection)
        expected = pa.Table.from_batches([stripe]).select(columns)
        found = narrowed.with_columns(columns).to_table()
        same_values(found, expected.take(pa.array(selection.to_indices())))


@needs_corpus
@pytest.mark.parametrize("path", named(OTHERS))
def test_other_files_are_errors_that_name_them(path):
    with pytest.raises(LateError) as caught:
        lm.orc_reader(path).to_table()
    assert path.name in str(caught.value)


@needs_corpus
@pytest.mark.parametrize("path", named(ENCRYPTED))
def test_encrypted_columns_are_refused_and_others_read(path):
    reader, file = lm.orc_reader(path), orc.ORCFile(str(path))
    open_columns = []
    for name in reader.schema.names:
        try:
            reader.with_columns([name]).to_table()
        except UnsupportedFeatureError as error:
            assert path.name in str(error)  # noqa: PT017 some columns raise, others do not
            assert "encrypted" in str(error)  # noqa: PT017
        else:
            open_columns.append(name)
    assert 0 < len(open_columns) < len(reader.schema.names)
    same_values(reader.with_columns(open_columns).to_table(), file.read(open_columns))
    with pytest.raises(UnsupportedFeatureError, match="encrypted"):
        reader.to_table()
    with pytest.raises(UnsupportedFeatureError, match="encrypted"):
        reader.scan_ranges()


@needs_corpus
def test_row_groups_of_lzo_are_pruned_though_pyarrow_has_no_codec_of_it():
    reader = lm.orc_reader(CORPUS / "TestVectorOrcFile.testLzo.orc")
    assert reader.row_selection_from_row_index("y IS NULL").row_count == 0
