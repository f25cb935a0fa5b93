"""Our scan for one table of a query: what its paths have in common.

In: what a query asks of a table. Out: the dataset that serves it, or why none does.

Invariant: a dataset is filtered by what DataFusion pushed down to every scan of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lm_datafusion.engine.offer import Declined, Offer
from lm_datafusion.errors import LateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.query import Query, TableUse

Wanted = TypeVar("Wanted")
# Tables of fewer bytes are read before a choice pays.
SMALL_BYTES = 1 << 20


def offer_for_one_table(
    name: str,
    query: Query,
    match: Callable[[Query, TableUse], Wanted | None],
    make: Callable[[Query, TableUse, Wanted], Offer | Declined],
    mismatch: str,
) -> Offer | Declined:
    """What a path offers that serves queries of one shape over one table.

    Args:
        name: The path.
        query: The query.
        match: What a query of that shape asks for; None for any other.
        make: The offer for it.
        mismatch: Why the path declines any other.
    """
    use = query.only_use
    if use is None:
        return Declined(name, mismatch)
    reason = why_not(use)
    if reason:
        return Declined(name, reason)
    wanted = match(query, use)
    if wanted is None:
        return Declined(name, mismatch)
    try:
        return make(query, use, wanted)
    except LateError as error:
        return Declined(name, str(error))


def open_dataset(use: TableUse) -> LateDataset:
    """The table, filtered by what its scans have in common.

    Raises:
        LateError: A file whose columns DataFusion would have to adapt.
    """
    # Imported here: most statements need no dataset, and PyArrow's take 9 MB.
    from lm_datafusion.dataset import LateDataset

    dataset = LateDataset(use.table.as_exact_table(use.options), options=use.options)
    return dataset.with_conjuncts(use.conjuncts)


def why_not(use: TableUse) -> str:
    """Why a table is not even estimated; empty if it is."""
    path = use.options.path
    if path == "native":
        return "path=native"
    if path == "auto" and use.table.has_native_reader and use.table.size_bytes < SMALL_BYTES:
        return "the table is small"
    return ""
