"""Rules out row groups and rows before any value is decoded.

In: conjuncts, and the facts of a file. Out: the `RowGroupAccess` of what is left.

Invariant: pruning fails open; no matching row is ever ruled out.
"""
