"""All conjuncts of a scan, and what they imply for every file.

In: bound conjuncts and the schema they are bound to. Out: what the pruning stages need of them.

Invariant: nothing here depends on a file, so a scan computes it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.forks import cached_property
from lm_datafusion.predicate.tree import (
    And,
    Comparison,
    InList,
    NullSafeEqual,
    Operator,
    Or,
    Predicate,
    references,
)
from lm_datafusion.pruning import columns_without_nan
from lm_datafusion.scan.memory.footer_answers import lasting_keys

if TYPE_CHECKING:
    import pyarrow as pa

    from lm_datafusion.predicate.conjunct import BoundConjunct
    from lm_datafusion.pruning.containers import NanFree
    from lm_datafusion.scan.memory.condition_cache import ConjunctKey


@dataclass(frozen=True)
class Conjunction:
    """Conjuncts that rows have to meet together."""

    conjuncts: tuple[BoundConjunct, ...]
    schema: pa.Schema

    @cached_property
    def lasting_keys(self) -> tuple[ConjunctKey, ...] | None:
        """The keys of all conjuncts, if their meaning does not change."""
        return lasting_keys(self.conjuncts, self.schema)

    @cached_property
    def equalities(self) -> tuple[int, ...]:
        """The conjuncts that a bloom filter can decide."""
        return tuple(i for i, c in enumerate(self.conjuncts) if _has_equality(c.tree))

    @cached_property
    def bounded_columns(self) -> list[list[tuple[str, ...]]]:
        """By conjunct: the columns whose bounds can decide it."""
        return [[r.path for r in references(c.tree)] for c in self.conjuncts]

    @cached_property
    def nan_free(self) -> NanFree:
        """The columns that the conjuncts together exclude NaN from."""
        return columns_without_nan(And(tuple(c.tree for c in self.conjuncts)))


def _has_equality(predicate: Predicate) -> bool:
    match predicate:
        case And(children) | Or(children):
            return any(_has_equality(child) for child in children)
        case Comparison(operator=Operator.EQ) | InList() | NullSafeEqual():
            return True
        case _:
            return False
