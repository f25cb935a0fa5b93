"""The first rows of an order: pages in the order of the best key they can hold.

In: a plan with `first`. Out: the first rows, ties with the last included.

Invariant: a page is left out only if enough rows are known that come before all of its own.
"""
