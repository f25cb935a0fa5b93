"""Reads row groups: windows, filter steps, late projection.

In: tasks of a plan. Out: record batches of the rows that match.

Invariant: only the rows of a column that are still wanted are decoded.
"""
