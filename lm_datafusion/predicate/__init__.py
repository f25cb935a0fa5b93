"""What is asked: conjuncts, the tree pruning reads, and DataFusion, which evaluates them.

In: SQL text or a PyArrow expression, split into conjuncts by the rooms above. Out: `Conjunct`s
bound to a schema (`BoundConjunct`), each with the columns it needs, what evaluates it, and a
`Predicate` tree that says as much of it as statistics can answer.

Invariant: the tree never says more than the conjunct does. What it cannot say is `Residual`.
"""
