"""A `ScanRequest` becomes a `ReadPlan`.

In: a table and a request. Out: a plan, or estimates of what a plan would visit.

Invariant: planning reads footers, at most also page indexes; never a page of data.
"""
