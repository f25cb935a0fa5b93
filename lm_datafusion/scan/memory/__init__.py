"""What scans remember: facts by file version and conjunct, never query results.

In: findings of a stage, a step or a condition. Out: the same, for later scans of the same version.

Invariant: memory is bounded; a dropped entry costs time, never a row.
"""
