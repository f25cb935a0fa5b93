"""Errors that damaged bytes cause, as errors that name the file.

In: a block of code that reads bytes of a file. Out: `CorruptFileError` or
`UnsupportedFeatureError` in place of what Python and PyArrow raise.

Invariant: errors of this package pass unchanged.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import CorruptFileError, LateError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What parsers here, numpy and PyArrow raise on bytes that are not what they should be. PyArrow's
# ORC reader raises OSError.
_SYMPTOMS = (
    ValueError,
    IndexError,
    KeyError,
    OverflowError,
    MemoryError,
    OSError,
    pa.ArrowException,
)


@contextlib.contextmanager
def named_damage(path: str, what: str) -> Iterator[None]:
    """Replaces the errors of a block.

    Args:
        path: The file.
        what: What is read: the tail, a stripe.

    Raises:
        CorruptFileError: The bytes are damaged.
        UnsupportedFeatureError: PyArrow cannot read them.
    """
    try:
        yield
    except LateError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedFeatureError(f"{path}: {what}: {error}") from error
    except _SYMPTOMS as error:
        raise CorruptFileError(f"{what}: {error or type(error).__name__}", path=path) from error
