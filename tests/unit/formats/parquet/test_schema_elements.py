from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.formats.parquet.schema_elements import (
    MAX_SCHEMA_DEPTH,
    Leaf,
    TopLevelField,
    load_schema_elements,
    parse_schema_elements,
    with_children,
)
from lm_datafusion.formats.parquet.spec import PhysicalType, Repetition
from lm_datafusion.formats.parquet.thrift import Kind, NeedMoreData, ThriftError, write_struct
from tests.parquet_files import (
    CORPUS_FILES,
    UNREADABLE,
    each_corpus_file,
    file_from_footer,
    footer_bytes,
    metadata_of,
    needs_corpus,
    write_parquet,
)

NESTED = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("point", pa.struct([pa.field("x", pa.float64()), pa.field("y", pa.string())])),
        pa.field("tags", pa.map_(pa.string(), pa.list_(pa.int64()))),
        pa.field("code", pa.binary(4)),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("price", pa.decimal128(30, 2)),
    ]
)


def element(name="c", *, children=None, repetition=None, physical_type=None):
    fields = [(1, Kind.I32, physical_type), (3, Kind.I32, repetition)]
    fields += [(4, Kind.BINARY, name.encode()), (5, Kind.I32, children)]
    return write_struct(field for field in fields if field[2] is not None)


def footer(elements, *, version=2):
    return write_struct([(1, Kind.I32, version), (2, Kind.LIST, (Kind.STRUCT, elements))])


def leaf(name="c", repetition=0):
    return element(name, physical_type=1, repetition=repetition)


@each_corpus_file
def test_corpus_agrees_with_pyarrow(path):
    data = path.read_bytes()
    expected = pq.ParquetFile(path).schema
    schema = parse_schema_elements(footer_bytes(data))
    assert len(schema.leaves) == len(expected)
    for found, column in zip(schema.leaves, expected, strict=True):
        assert ".".join(found.path) == column.path
        assert found.max_definition_level == column.max_definition_level
        assert found.max_repetition_level == column.max_repetition_level
        of_leaf = schema.elements[found.element_index]
        assert of_leaf.name == column.name
        assert PhysicalType(of_leaf.physical_type).name == column.physical_type
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
            assert of_leaf.type_length == column.length
    assert schema.version in (1, 2)
    _check_ranges(schema)


def _check_ranges(schema):
    assert len(schema.fields) == schema.root.num_children
    assert schema.fields[0].first == 1
    assert schema.fields[0].first_leaf == 0
    for field, following in zip(schema.fields, schema.fields[1:], strict=False):
        assert field.first < field.stop == following.first
        assert field.stop_leaf == following.first_leaf
    assert schema.fields[-1].stop == len(schema.elements)
    assert schema.fields[-1].stop_leaf == len(schema.leaves)
    for field in schema.fields:
        assert schema.elements[field.first].name == field.name
        for found in schema.leaves[field.first_leaf : field.stop_leaf]:
            assert found.path[0] == field.name
            assert field.first <= found.element_index < field.stop


@needs_corpus
def test_a_schema_that_pyarrow_refuses_is_still_a_tree():
    schema = parse_schema_elements(footer_bytes(UNREADABLE.read_bytes()))
    assert [found.path for found in schema.leaves] == [
        ("my_map", "key_value", "key"),
        ("my_map", "key_value", "value"),
    ]
    _check_ranges(schema)


@needs_corpus
def test_the_corpus_has_nested_files():
    depths = set()
    for path in CORPUS_FILES:
        leaves = parse_schema_elements(footer_bytes(path.read_bytes())).leaves
        depths |= {leaf.max_repetition_level for leaf in leaves}
    assert max(depths) >= 3


def test_nested_schema():
    schema = parse_schema_elements(footer_bytes(write_parquet(NESTED.empty_table())))
    assert [field.name for field in schema.fields] == NESTED.names
    assert schema.fields[1] == TopLevelField(
        name="point", first=2, stop=5, first_leaf=1, stop_leaf=3
    )
    assert schema.leaves[4] == Leaf(
        path=("tags", "key_value", "value", "list", "element"),
        element_index=10,
        max_definition_level=5,
        max_repetition_level=2,
    )
    required, group, code, at = (schema.elements[i] for i in (1, 2, 11, 12))
    assert (required.repetition, required.is_group) == (Repetition.REQUIRED, False)
    assert (group.repetition, group.is_group) == (Repetition.OPTIONAL, True)
    assert (group.num_children, group.physical_type) == (2, None)
    assert (code.physical_type, code.type_length) == (PhysicalType.FIXED_LEN_BYTE_ARRAY, 4)
    assert (code.converted_type, code.has_logical_type) == (None, False)
    assert (at.converted_type, at.has_logical_type) == (10, True)  # TIMESTAMP_MICROS
    _check_ranges(schema)


@pytest.mark.parametrize("names", [["id"], ["tags"], ["point", "price"], NESTED.names])
def test_a_subset_of_the_fields_is_a_schema(names):
    schema = parse_schema_elements(footer_bytes(write_parquet(NESTED.empty_table())))
    chosen = [field for field in schema.fields if field.name in names]
    raw = [e.raw for field in chosen for e in schema.elements[field.first : field.stop]]
    raw.insert(0, with_children(schema.root, len(chosen)))
    data = file_from_footer(
        write_struct(
            [
                (1, Kind.I32, schema.version),
                (2, Kind.LIST, (Kind.STRUCT, raw)),
                (3, Kind.I64, 0),
                (4, Kind.LIST, (Kind.STRUCT, [])),
            ]
        )
    )
    found = pq.ParquetFile(io.BytesIO(data)).schema_arrow
    assert found.equals(pa.schema([NESTED.field(name) for name in names]))
    again = parse_schema_elements(footer_bytes(data))
    assert [again.elements[field.first] for field in again.fields] == [
        schema.elements[field.first] for field in chosen
    ]


def test_with_children_keeps_the_name_and_changes_the_count():
    root = parse_schema_elements(footer([element("spark_schema", children=1), leaf()])).root
    changed = parse_schema_elements(footer([with_children(root, 2), leaf(), leaf("d")])).root
    assert (changed.name, changed.num_children) == ("spark_schema", 2)


def test_only_the_beginning_of_the_footer_is_read():
    data = write_parquet(pa.table({"a": [1], "b": [2]}))
    whole = parse_schema_elements(footer_bytes(data))
    stop = footer_bytes(data).index(whole.elements[-1].raw) + len(whole.elements[-1].raw)
    assert parse_schema_elements(footer_bytes(data)[:stop] + b"\xff" * 8) == whole
    with pytest.raises(NeedMoreData):
        parse_schema_elements(footer_bytes(data)[: stop - 1])


def test_files_of_one_schema_share_it():
    first = write_parquet(pa.table({"shared": [1], "b": [2]}))
    second = write_parquet(pa.table({"shared": [3, 4], "b": [5, 6]}))
    assert footer_bytes(first) != footer_bytes(second)
    schema = load_schema_elements(footer_bytes(first))
    assert load_schema_elements(footer_bytes(second)) is schema
    assert schema == parse_schema_elements(footer_bytes(second))


@pytest.mark.parametrize(
    "other",
    [
        footer([element("root", children=2), leaf("a"), leaf("b")], version=1),
        footer([element("root", children=2), leaf("a"), leaf("c")]),
        footer([element("root", children=2), leaf("a"), leaf("b", 1)]),
        footer([element("root", children=1), leaf("a")]),
        footer([element("root", children=3), leaf("a"), leaf("b"), leaf("c")]),
    ],
)
def test_another_schema_is_not_shared(other):
    known = load_schema_elements(footer([element("root", children=2), leaf("a"), leaf("b")]))
    found = load_schema_elements(other)
    assert found == parse_schema_elements(other)
    assert found != known


def test_fields_without_leaves():
    """A struct of no fields: Arrow cannot write it to Parquet, others have."""
    schema = parse_schema_elements(footer([element(children=2), element("empty"), leaf("d", 2)]))
    assert [(f.first_leaf, f.stop_leaf) for f in schema.fields] == [(0, 0), (0, 1)]
    assert schema.leaves[0].path == ("d",)
    assert (schema.leaves[0].max_definition_level, schema.leaves[0].max_repetition_level) == (1, 1)


def test_schema_without_fields():
    schema = parse_schema_elements(footer([element("root", children=0)]))
    assert (schema.fields, schema.leaves) == ((), ())


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([], "no root"),
        ([element(children=1)], "announce more"),
        ([element(children=2), leaf()], "announce more"),
        ([element(children=2**31 - 1), leaf()], "announce more"),
        ([element(children=1), leaf(), leaf()], "its groups hold 2"),
        ([element(children=0), leaf()], "its groups hold 1"),
        ([element(children=-1)], "-1 children"),
        ([element(children=1), leaf(repetition=3)], "not a valid Repetition"),
        ([element(children=1), write_struct([(4, Kind.BINARY, b"\xff")])], "decode"),
        ([element(children=1), write_struct([(1, Kind.I32, 1)])], "field 4 should be bytes"),
        ([element(children=1), write_struct([(4, Kind.I32, 1)])], "field 4 should be bytes"),
        ([element(children=1)] * MAX_SCHEMA_DEPTH + [element(children=1), leaf()], "nested deeper"),
    ],
)
def test_a_list_that_is_no_tree_raises(elements, message):
    with pytest.raises(ThriftError, match=message):
        parse_schema_elements(footer(elements))


def test_deep_schemas_up_to_the_bound_are_read():
    schema = parse_schema_elements(footer([element(children=1)] * MAX_SCHEMA_DEPTH + [leaf()]))
    assert len(schema.leaves[0].path) == MAX_SCHEMA_DEPTH


def test_metadata_version_is_kept():
    data = write_parquet(pa.table({"a": [1]}), version="1.0")
    assert parse_schema_elements(footer_bytes(data)).version == 1
    assert metadata_of(data).format_version == "1.0"
