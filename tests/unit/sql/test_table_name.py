"""Names are read as DataFusion reads them, and written so that it reads them back."""

from __future__ import annotations

import pytest

from lm_datafusion.sql.table_name import dotted, parse_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("t", ("t",)),
        ("Log", ("log",)),
        ('"Log"', ("Log",)),
        ("other.T2", ("other", "t2")),
        ('c."S x".t', ("c", "S x", "t")),
        ('"a""b"', ('a"b',)),
        ("two words", ("two words",)),
        ("a.b.c.d", ("a.b.c.d",)),
    ],
)
def test_names_are_read_as_datafusion_reads_them(text, name):
    assert parse_name(text) == name
    assert parse_name(dotted(name)) == name
