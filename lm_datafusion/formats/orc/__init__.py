"""ORC: tail, stripes, row indexes and statistics; chosen row groups cut out and decoded by PyArrow.

In: an open file. Out: facts about it, and record batches of chosen row groups and columns.

Invariant: a row group of this room is an index group of a stripe: `rowIndexStride` rows, with the
same borders in every column.
"""
