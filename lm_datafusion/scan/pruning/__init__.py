"""Which row groups and rows are left before any value is decoded.

In: conjuncts, and the facts of a file. Out: `RowGroupAccess` of what is left.

Invariant: pruning fails open; no matching row is ever left out.
"""
