"""Predicates: conjuncts, their trees for pruning, and their evaluation by DataFusion.

In: SQL text or a PyArrow expression, split into conjuncts by the rooms above. Out: `Conjunct`s
bound to a schema (`BoundConjunct`), each with its columns, its evaluator, and a `Predicate` tree
that expresses what statistics can answer.

Invariant: the tree never implies more than the conjunct. What it cannot express is `Residual`.
"""
