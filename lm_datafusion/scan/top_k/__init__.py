"""The first rows of an order: visits pages in the order of their best key.

In: a plan with `first`. Out: the first rows, ties with the last included.

Invariant: a page is skipped only if enough rows are known that sort before all of its rows.
"""
