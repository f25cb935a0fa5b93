"""What one scan leaves for the next: facts by file version and conjunct, never answers of queries.

In: what a stage, a step or a condition found. Out: the same, to a later scan of the same version.

Invariant: bounded in memory; an entry that was dropped costs speed, never a row.
"""
