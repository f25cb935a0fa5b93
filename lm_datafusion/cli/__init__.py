"""The command line interface.

In: arguments. Out: text on standard output, and an exit code.

Invariant: no other room imports this one.
"""
