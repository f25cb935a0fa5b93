"""Turns a `ScanRequest` into a `ReadPlan`.

In: a table and a request. Out: a plan, or estimates of what a plan would visit.

Invariant: planning reads footers and at most page indexes, never a data page.
"""
