from __future__ import annotations

import pyarrow as pa
import pytest

from lm_datafusion.formats.orc.bloom_filter import (
    BloomFilters,
    are_trusted,
    hash_literal,
)
from lm_datafusion.formats.orc.messages import ColumnEncoding, Footer
from lm_datafusion.formats.orc.spec import TypeKind, Writer
from lm_datafusion.protobuf import encode_field
from tests.orc_files import CORPUS, needs_corpus, opened, write


@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
@pytest.mark.parametrize(
    ("name", "values", "others"),
    [
        ("i", list(range(0, 4000, 2)), range(1, 4000, 2)),
        (
            "s",
            [f"value {n}" * (n % 4) + "é" for n in range(2000)],
            [f"no {n}" for n in range(2000)],
        ),
        ("d", [n * 0.37 + 0.1 for n in range(2000)], [n * 0.37 + 0.2 for n in range(2000)]),
    ],
)
def test_every_value_is_in_the_filter_of_its_row_group(tmp_path, codec, name, values, others):
    table = pa.table({name: values})
    path = write(
        tmp_path / "f.orc",
        table,
        compression=codec,
        row_index_stride=500,
        bloom_filter_columns=[1],
        bloom_filter_fpp=0.01,
    )
    with opened(path) as (file, facts):
        stripe = facts.load_stripe(file, 0)
        filters = facts.load_bloom_filters(file, stripe, 1)
        kind, data_type = facts.tail.types.types[1].kind, table.schema.field(0).type
        assert len(filters) == 4
        for row, value in enumerate(values):
            found = filters.may_contain_any([hash_literal(pa.scalar(value), kind, data_type)])
            assert found[row // 500]
        hits = sum(
            filters.may_contain_any([hash_literal(pa.scalar(o), kind, data_type)]).sum()
            for o in others
        )
        assert hits < 0.03 * 4 * len(list(others))


@needs_corpus
def test_filters_that_miss_values_are_not_used():
    with opened(CORPUS / "bad_bloom_filter_1.6.11.orc") as (file, facts):
        assert facts.tail.footer.software_version == "1.6.11"
        stripe = facts.load_stripe(file, 0)
        assert all(
            facts.load_bloom_filters(file, stripe, column) is None
            for column in range(len(facts.tail.types))
        )


def footer(writer, version):
    return Footer.parse(encode_field(9, writer) + encode_field(12, version.encode()))


@pytest.mark.parametrize(
    ("writer", "version", "is_trusted"),
    [
        (Writer.JAVA, "", True),
        (Writer.CPP, "1.6.11", False),
        (Writer.CPP, "1.6.12", True),
        (Writer.CPP, "1.7.0", False),
        (Writer.CPP, "1.7.1", True),
        (Writer.CPP, "2.0.0", True),
        (Writer.CPP, "1.9.0-SNAPSHOT", False),
        (Writer.CPP, "", False),
        (4, "1.0.0", False),
    ],
)
def test_who_is_trusted(writer, version, is_trusted):
    utf8 = ColumnEncoding.parse(encode_field(3, 1))
    assert are_trusted(footer(writer, version), utf8) is is_trusted
    assert not are_trusted(footer(writer, version), ColumnEncoding.parse(b""))


@pytest.mark.parametrize(
    ("value", "kind", "data_type"),
    [
        (pa.scalar(0.0), TypeKind.DOUBLE, pa.float64()),
        (pa.scalar(-0.0), TypeKind.DOUBLE, pa.float64()),
        (pa.scalar(float("nan")), TypeKind.DOUBLE, pa.float64()),
        (pa.scalar(1.5), TypeKind.FLOAT, pa.float32()),
        (pa.scalar(1, pa.int8()), TypeKind.BYTE, pa.int8()),
        (pa.scalar("a"), TypeKind.CHAR, pa.string()),
        (pa.scalar(None, pa.int64()), TypeKind.LONG, pa.int64()),
        (pa.scalar(1, pa.timestamp("ns")), TypeKind.TIMESTAMP, pa.timestamp("ns")),
        (pa.scalar(1).cast(pa.decimal128(20, 0)), TypeKind.DECIMAL, pa.decimal128(20, 0)),
    ],
)
def test_what_is_uncertain_has_no_hash(value, kind, data_type):
    assert hash_literal(value, kind, data_type) is None


@pytest.mark.parametrize("data", [encode_field(1, 3), encode_field(3, b"\x01"), b"\x0a"])
def test_damaged_filters_are_refused(data):
    with pytest.raises(ValueError, match=r"."):
        BloomFilters(encode_field(1, data))
