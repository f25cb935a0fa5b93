from __future__ import annotations

import pytest

from lm_datafusion.formats.orc.messages import ColumnType
from lm_datafusion.formats.orc.spec import TypeKind
from lm_datafusion.formats.orc.types import TypeTree
from lm_datafusion.protobuf import encode_field


def column(kind, subtypes=(), names=()):
    message = encode_field(1, kind) + encode_field(9, 5)
    message += b"".join(encode_field(2, child) for child in subtypes)
    message += b"".join(encode_field(3, name.encode()) for name in names)
    return ColumnType.parse(message)


# a: int, b: struct<c: list<int>, d: string>, e: int
TYPES = [
    column(TypeKind.STRUCT, (1, 2, 6), ("a", "b", "e")),
    column(TypeKind.INT),
    column(TypeKind.STRUCT, (3, 5), ("c", "d")),
    column(TypeKind.LIST, (4,)),
    column(TypeKind.INT),
    column(TypeKind.STRING),
    column(TypeKind.INT),
]


def test_columns_by_path_and_subtree():
    tree = TypeTree(TYPES)
    assert tree.names == ("a", "b", "e")
    assert tree.find(("b", "d")) == 5
    assert tree.find(("b", "c", "element")) is None
    assert tree.find(("nothing",)) is None
    assert list(tree.subtree(2)) == [2, 3, 4, 5]
    assert [tree.is_below_list(c) for c in range(7)] == [False] * 4 + [True, False, False]


def test_some_columns_are_renumbered_with_all_below_them():
    tree = TypeTree(TYPES)
    numbers = tree.renumbered([2, 1])
    assert numbers == {0: 0, 6: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    again = TypeTree([ColumnType.parse(m) for m in tree.messages([2, 1], numbers)])
    assert again.names == ("e", "b")
    assert again.find(("b", "d")) == 5
    assert b"\x48\x05" in again.types[1].message  # fields that are not known stay


def test_no_columns_at_all():
    tree = TypeTree(TYPES)
    (root,) = tree.messages([], tree.renumbered([]))
    assert TypeTree([ColumnType.parse(root)]).names == ()


@pytest.mark.parametrize(
    "types",
    [
        [column(TypeKind.STRUCT, (1,), ("a",))],
        [column(TypeKind.STRUCT, (0,), ("a",))],
        [column(TypeKind.STRUCT, (2,), ("a",)), column(TypeKind.INT), column(TypeKind.INT)],
        [column(TypeKind.STRUCT), column(TypeKind.INT)],
        [column(TypeKind.STRUCT, (1,)), column(TypeKind.INT)],
        [column(TypeKind.STRUCT, (1, 1), ("a", "b")), column(TypeKind.INT)],
    ],
    ids=["missing", "itself", "gap", "orphan", "no name", "twice"],
)
def test_what_is_no_tree_is_refused(types):
    with pytest.raises(ValueError, match=r"."):
        TypeTree(types)


def test_two_columns_of_one_name_have_no_path():
    types = [column(TypeKind.STRUCT, (1, 2), ("a", "a")), *([column(TypeKind.INT)] * 2)]
    assert TypeTree(types).find(("a",)) is None
