"""Decodes row groups of a stripe: the only user of PyArrow's ORC reader.

In: facts, top-level columns and ranges of row groups. Out: a record batch of exactly those rows.

A stripe without a usable row index is one row group. Where all row groups of a stripe are wanted,
its streams are copied whole and no index is read.

Invariant: fails closed. What PyArrow refuses, or gives with another number of rows, is an error
that names the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import orc

from lm_datafusion.errors import CorruptFileError, UnsupportedFeatureError
from lm_datafusion.formats.orc.damage import named_damage
from lm_datafusion.formats.orc.groups import group_rows, whole_stripe
from lm_datafusion.formats.orc.splice import splice, splice_empty
from lm_datafusion.formats.orc.stripe import StripeBytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.formats.orc.facts import OrcFacts
    from lm_datafusion.formats.orc.groups import ColumnGroups, GroupRange
    from lm_datafusion.formats.orc.stripe import Stripe
    from lm_datafusion.storage import ByteRange, OpenFile

# PyArrow makes room for all rows of a stripe before it decodes one: damaged counts must not make
# it ask for more memory than there is.
MOST_ROWS = 1 << 27


def decode_schema(facts: OrcFacts, columns: Sequence[int]) -> pa.Schema:
    """The schema of some top-level columns, as PyArrow gives it."""
    with named_damage(facts.path, "the schema"):
        return orc.ORCFile(pa.BufferReader(splice_empty(facts.tail, columns))).schema


def load_cuttable(
    facts: OrcFacts,
    file: OpenFile,
    stripe: Stripe,
    columns: Sequence[int],
    groups: Sequence[GroupRange],
) -> dict[int, ColumnGroups] | None:
    """What it takes to cut row groups out of some top-level columns.

    Returns:
        By column; None if the row groups are the whole stripe, or cannot be cut out of it: then it
        has to be read whole.
    """
    if list(groups) == whole_stripe(stripe):
        return None
    numbers = [facts.tail.types.top_level(index) for index in columns]
    cut_columns = facts.load_groups(file, stripe, numbers)
    with named_damage(facts.path, f"the row index of stripe {stripe.index}"):
        if cut_columns is None or not all(c.are_usable(groups) for c in cut_columns.values()):
            return None
    return cut_columns


def plan_ranges(
    facts: OrcFacts,
    stripe: Stripe,
    columns: Sequence[int],
    groups: Sequence[GroupRange],
    cut_columns: dict[int, ColumnGroups] | None,
) -> list[ByteRange]:
    """The byte ranges that row groups of some top-level columns take, by column and stream."""
    if cut_columns is not None:
        with named_damage(facts.path, f"the row index of stripe {stripe.index}"):
            return [r for column in cut_columns.values() for r in column.byte_ranges(groups)]
    tops = [facts.tail.types.subtree(facts.tail.types.top_level(index)) for index in columns]
    return [
        stripe.streams[column, kind]
        for top in tops
        for column in top
        for kind in stripe.value_streams(column)
    ]


def decode_groups(
    facts: OrcFacts,
    file: OpenFile,
    stripe: Stripe,
    columns: Sequence[int],
    groups: Sequence[GroupRange],
    cut_columns: dict[int, ColumnGroups] | None,
) -> pa.RecordBatch:
    """The rows of some row groups.

    Args:
        facts: Of the file.
        file: Where the bytes come from.
        stripe: That has the row groups.
        columns: Top-level columns, by their place among the names.
        groups: Ranges of row groups: half-open, sorted, not touching.
        cut_columns: From `load_cuttable`; if None, `groups` is the whole stripe.

    Raises:
        CorruptFileError: The stripe is damaged.
        UnsupportedFeatureError: It cannot be read here.
    """
    facts.check_readable(columns)
    is_whole = list(groups) == whole_stripe(stripe)
    if cut_columns is None and not is_whole:
        raise ValueError("a stripe without a row index is read whole")
    if is_whole:
        cut_columns = None
    row_count = group_rows(stripe, groups)
    if row_count > MOST_ROWS:
        raise UnsupportedFeatureError(
            f"{facts.path}: stripe {stripe.index} has {row_count} rows that cannot be read apart"
        )
    source = StripeBytes(file)
    source.prefetch(plan_ranges(facts, stripe, columns, groups, cut_columns))
    with named_damage(facts.path, f"stripe {stripe.index}"):
        data = splice(
            facts.tail,
            stripe,
            columns,
            source,
            groups=groups,
            cut_columns=cut_columns,
            row_count=row_count,
        )
        del source
        batch = orc.ORCFile(pa.BufferReader(data)).read_stripe(0)
    if batch.num_rows != row_count:
        raise CorruptFileError(
            f"stripe {stripe.index} gave {batch.num_rows} rows, not {row_count}", path=facts.path
        )
    return batch
