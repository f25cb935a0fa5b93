"""Translates folded DataFusion expressions to predicate trees.

In: an expression that DataFusion's optimizer has coerced and folded, and its schema. Out: a
`Predicate`, and whether evaluating the expression can fail on a value.

By then DataFusion has turned BETWEEN into comparisons, casts of literals into literals of the
column's type, `date_part('year', t) = 2020` into a range, and so on: the tree gets all of that for
free, with DataFusion's semantics.

Invariant: an expression that is not fully understood becomes `Residual`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.predicate.evaluator import operands_of
from lm_datafusion.predicate.kinds import is_text
from lm_datafusion.predicate.tree import (
    And,
    ByteLength,
    ColumnReference,
    Comparison,
    Constant,
    InList,
    IsNull,
    IsTrue,
    Like,
    Not,
    NullSafeEqual,
    Operator,
    Or,
    Predicate,
    Residual,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from datafusion import Expr

_COMPARISONS = {operator.value: operator for operator in Operator}
_PATTERN_OPERATORS = frozenset({"~", "~*", "!~", "!~*", "LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"})


@dataclass(slots=True)
class Translator:
    """Walks one folded expression; sets `can_fail` if a value could make it fail."""

    schema: pa.Schema
    can_fail: bool = False

    def translate(self, expression: Expr) -> Predicate:
        """The tree of an expression, with `Residual` for what it cannot express."""
        rule = _RULES.get(expression.variant_name())
        if rule is None:
            self.can_fail = True
            return Residual()
        return rule(self, expression)

    def _binary(self, expression: Expr) -> Predicate:
        operator = expression.rex_call_operator()
        left, right = expression.rex_call_operands()
        if operator in {"AND", "OR"}:
            children = tuple(self.translate(e) for e in operands_of(operator, expression))
            return And(children) if operator == "AND" else Or(children)
        if operator in _COMPARISONS:
            return self._comparison(_COMPARISONS[operator], left, right)
        if operator in {"IS DISTINCT FROM", "IS NOT DISTINCT FROM"}:
            equal = self._null_safe_equal(left, right)
            return Not(equal) if operator == "IS DISTINCT FROM" else equal
        if operator not in _PATTERN_OPERATORS:
            self.can_fail = True
        return Residual()

    def _comparison(self, operator: Operator, left: Expr, right: Expr) -> Predicate:
        if left.variant_name() == "Literal":
            left, right, operator = right, left, operator.mirrored()
        if right.variant_name() != "Literal":
            self._note_operands(left, right)
            return Residual()
        literal = literal_value(right)
        if not literal.is_valid:
            return Constant(None)
        measured = self._measured(left)
        if measured is not None and pa.types.is_integer(literal.type):
            return ByteLength(measured, operator, literal.as_py())
        column = self._column(left, literal.type)
        return Residual() if column is None else Comparison(column, operator, literal)

    def _measured(self, operand: Expr) -> ColumnReference | None:
        """The text column whose length in bytes an operand is."""
        if operand.variant_name() != "ScalarFunction":
            return None
        if not str(operand).startswith("Expr(octet_length("):
            return None
        column = self._reference(operand.rex_call_operands()[0])
        if column is None or not is_text(self._type_of(column)):
            return None
        return column

    def _null_safe_equal(self, left: Expr, right: Expr) -> Predicate:
        if left.variant_name() == "Literal":
            left, right = right, left
        if right.variant_name() != "Literal":
            self._note_operands(left, right)
            return Residual()
        literal = literal_value(right)
        if left.variant_name() in _RULES and left.variant_name() != "Column":
            return self._truth_test(left, literal)
        column = self._column(left, literal.type)
        if column is None:
            return Residual()
        return NullSafeEqual(column, literal) if literal.is_valid else IsNull(column)

    def _truth_test(self, condition: Expr, literal: pa.Scalar) -> Predicate:
        """`condition IS NOT DISTINCT FROM TRUE`: the folded form of CASE expressions."""
        child = self.translate(condition)
        if literal.as_py() is True:
            return IsTrue(child)
        return IsTrue(Not(child)) if literal.as_py() is False else Residual()

    def _in_list(self, expression: Expr) -> Predicate:
        in_list = expression.to_variant()
        items = in_list.list()
        if not items or any(item.variant_name() != "Literal" for item in items):
            self.can_fail = True
            return Residual()
        values = pa.array([literal_value(item) for item in items])
        column = self._column(in_list.expr(), values.type)
        if column is None:
            return Residual()
        present = values.drop_null()
        found: Predicate = InList(column, present) if len(present) else Constant(False)
        if len(present) < len(values):
            found = Or((found, Constant(None)))
        return Not(found) if in_list.negated() else found

    def _like(self, expression: Expr) -> Predicate:
        like = expression.to_variant()
        pattern = like.pattern()
        if pattern.variant_name() != "Literal" or like.expr().variant_name() != "Column":
            self._note_operands(like.expr(), pattern)
            return Residual()
        literal = literal_value(pattern)
        is_plain = like.escape_char() is None and " ILIKE " not in str(expression)
        if not literal.is_valid or not is_plain:
            return Residual()
        column = self._column(like.expr(), literal.type)
        tree = Residual() if column is None else _pattern(column, str(literal.as_py()))
        return Not(tree) if like.negated() else tree

    def _truth(self, expression: Expr) -> Predicate:
        child = self.translate(expression.to_variant().expr())
        match expression.variant_name():
            case "IsTrue":
                return IsTrue(child)
            case "IsNotTrue":
                return Not(IsTrue(child))
            case "IsFalse":
                return IsTrue(Not(child))
            case "IsNotFalse":
                return Not(IsTrue(Not(child)))
            case _:
                return Residual()

    def _null_test(self, expression: Expr) -> Predicate:
        operand = expression.to_variant().expr()
        column = self._column(operand, None)
        if column is None:
            return Residual()
        return IsNull(column) if expression.variant_name() == "IsNull" else Not(IsNull(column))

    def _not(self, expression: Expr) -> Predicate:
        return Not(self.translate(expression.to_variant().expr()))

    def _boolean_column(self, expression: Expr) -> Predicate:
        column = self._column(expression, pa.bool_())
        return Residual() if column is None else Comparison(column, Operator.EQ, pa.scalar(True))

    def _literal(self, expression: Expr) -> Predicate:
        return Constant(literal_value(expression).as_py())

    def _column(self, operand: Expr, literal_type: pa.DataType | None) -> ColumnReference | None:
        """The column of an operand, if the operand has the order of the column."""
        reference = self._reference(operand)
        if reference is not None:
            return reference
        if operand.variant_name() == "Cast" and literal_type is not None:
            inner = self._reference(operand.rex_call_operands()[0])
            if inner is not None and is_monotone_cast(self._type_of(inner), literal_type):
                return ColumnReference(inner.path, cast_type=literal_type)
        self._note_operands(operand)
        return None

    def _reference(self, operand: Expr) -> ColumnReference | None:
        if operand.variant_name() == "Column":
            name = operand.to_variant().name()
            return ColumnReference((name,)) if name in self.schema.names else None
        if operand.variant_name() == "ScalarFunction" and str(operand).startswith(
            "Expr(get_field("
        ):
            parent, *keys = operand.rex_call_operands()
            reference = self._reference(parent)
            if reference is None or any(key.variant_name() != "Literal" for key in keys):
                return None
            return ColumnReference(
                (*reference.path, *(str(literal_value(key).as_py()) for key in keys))
            )
        return None

    def _type_of(self, reference: ColumnReference) -> pa.DataType:
        data_type = self.schema.field(reference.path[0]).type
        for name in reference.path[1:]:
            data_type = data_type.field(name).type
        return data_type

    def _note_operands(self, *operands: Expr) -> None:
        """Anything but columns, literals and struct fields may fail on a value."""
        for operand in operands:
            if operand.variant_name() != "Literal" and self._reference(operand) is None:
                self.can_fail = True


_RULES: dict[str, Callable[[Translator, Expr], Predicate]] = {
    "BinaryExpr": Translator._binary,  # noqa: SLF001 the table belongs to the class
    "InList": Translator._in_list,  # noqa: SLF001
    "Like": Translator._like,  # noqa: SLF001
    "IsTrue": Translator._truth,  # noqa: SLF001
    "IsNotTrue": Translator._truth,  # noqa: SLF001
    "IsFalse": Translator._truth,  # noqa: SLF001
    "IsNotFalse": Translator._truth,  # noqa: SLF001
    "IsNull": Translator._null_test,  # noqa: SLF001
    "IsNotNull": Translator._null_test,  # noqa: SLF001
    "Not": Translator._not,  # noqa: SLF001
    "Column": Translator._boolean_column,  # noqa: SLF001
    "Literal": Translator._literal,  # noqa: SLF001
}


def literal_value(expression: Expr) -> pa.Scalar:
    """The typed value of a literal; dictionaries and views become plain values."""
    scalar = expression.python_value()
    if not isinstance(scalar, pa.Scalar):
        scalar = pa.scalar(scalar)
    if pa.types.is_dictionary(scalar.type):
        scalar = scalar.value
    # PyArrow has no kernels for views.
    if pa.types.is_string_view(scalar.type):
        return pa.scalar(scalar.as_py(), pa.string())
    if pa.types.is_binary_view(scalar.type):
        return pa.scalar(scalar.as_py(), pa.binary())
    return scalar


def is_monotone_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast keeps the order of values and cannot fail."""
    if source == target:
        return True
    types = pa.types
    if types.is_integer(source):
        if types.is_integer(target):
            return _holds_integers(source, target)
        return types.is_float32(target) or types.is_float64(target)
    if types.is_floating(source):
        return types.is_floating(target) and target.bit_width > source.bit_width
    if types.is_decimal(source) and types.is_decimal(target):
        whole_digits = target.precision - target.scale >= source.precision - source.scale
        return whole_digits and target.scale >= source.scale
    return is_text(source) and is_text(target)


def _holds_integers(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_signed_integer(source):
        return pa.types.is_signed_integer(target) and target.bit_width >= source.bit_width
    if pa.types.is_signed_integer(target):
        return target.bit_width > source.bit_width
    return target.bit_width >= source.bit_width


def _pattern(column: ColumnReference, pattern: str) -> Predicate:
    stops = [position for position in map(pattern.find, "_\\") if position >= 0]
    if stops:
        prefix = pattern[: min(stops)].split("%", 1)[0]
        if not prefix:
            return Residual()
        return Like(column, (prefix.encode(),), True, False, is_whole=False)
    parts = pattern.split("%")
    return Like(
        column,
        tuple(part.encode() for part in parts if part),
        is_anchored_left=parts[0] != "" or len(parts) == 1,
        is_anchored_right=parts[-1] != "" or len(parts) == 1,
    )
