"""Classes that pass for PyArrow classes in Python, but not in its C++ code.

In: a PyArrow class that cannot be initialised from Python. Out: a base class whose instances pass
`isinstance` checks for it.

Why not a subclass: PyArrow's `Scanner` and `Fragment` hold a C++ pointer that only PyArrow can set.
A function given a subclass would dereference the null pointer and crash; given an instance of
another type, it raises `TypeError` and names both classes.

Invariant: an instance has every public member of the class it passes for.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Lookalike:
    """Passes for a class that engines check with `isinstance`."""

    _face: ClassVar[type]

    def __init_subclass__(cls, *, face: type, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._face = face

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._face
