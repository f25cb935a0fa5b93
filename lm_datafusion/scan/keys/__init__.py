"""Sort keys: values in DataFusion's sort order, and the best key a container can hold.

In: values and bounds of a column. Out: keys, best keys and spans of keys.

Invariant: no row of a container has a better key than the container's best key.
"""
