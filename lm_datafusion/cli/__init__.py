"""The command line: what can be done with the package from a shell.

In: arguments. Out: text on standard output, and an exit code.

Invariant: no other room imports this one.
"""
