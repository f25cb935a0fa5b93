"""Classes that pass for PyArrow's in Python, and not in its C++ code.

In: a class of PyArrow's that cannot be initialised from Python. Out: a base for one that
`isinstance` takes for it.

Why not a subclass: PyArrow's `Scanner` and `Fragment` hold a C++ pointer that only PyArrow can set.
A function that takes one would follow the null pointer and end the process; given an instance of
another type, it raises `TypeError` and names both classes.

Invariant: an instance has every public member of the class it passes for.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Lookalike:
    """Passes for a class that engines ask for with `isinstance`."""

    _face: ClassVar[type]

    def __init_subclass__(cls, *, face: type, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._face = face

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._face
