"""One row group after the other: windows, filter steps, late projection.

In: tasks of a plan. Out: record batches of the rows that match.

Invariant: of every column, only the rows that are still wanted are decoded.
"""
