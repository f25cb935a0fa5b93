"""Compiled kernels: bytes and rows in, arrays out.

In: the bytes of pages, and the rows wanted. Out: Arrow arrays of those rows, or the rows that pass
a condition. Kernels know no file, plan or predicate tree; they release the GIL in every loop over
values.

Two Cython modules, each in parts (`.pxi`):

* `pages` reads headers and indexes (`thrift`), finds the pages that hold rows (`layout`),
  decompresses them (`codec`) and opens them.
* `columns` tests values (`conditions`, `dictionary`), gathers them (`builders`), goes from page to
  page (`rows`), and reads a column of some row groups in one call (`chunk`).

The loops over values are C: `hybrid.h` (run-length and bit-packed values), `rows.h` (masks and row
numbers), `text.h` and `find.h` (text and substring search), `utf8.h` (validation), `fixed.h`
(numbers), `delta.h` and `streams.h` (pages that are unpacked to PLAIN ones), `snappy.h`, `lz4.h`
(sizes of LZ4 blocks), `source.h` (byte ranges of a local file).

Without a C compiler the package installs without them, and PyArrow decodes every page.
`LM_DATAFUSION_KERNELS=off` turns them off.

Invariant: no byte outside the given buffers is read, whatever they contain.
"""

from __future__ import annotations

import functools
import os
import warnings
from dataclasses import dataclass
from typing import Final

from lm_datafusion.errors import KernelWarning

VARIABLE: Final = "LM_DATAFUSION_KERNELS"
_SWITCHED_OFF: Final = f"{VARIABLE} says so"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInfo:
    """Whether compiled kernels decode pages.

    Attributes:
        is_active: Whether they do.
        simd: The vector instructions they use: `avx2`, `neon` or `portable`; empty without them.
        reason: Why they do not; empty if they do.
    """

    is_active: bool
    simd: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"kernels: on ({self.simd})" if self.is_active else f"kernels: off ({self.reason})"


@functools.cache
def kernel_info() -> KernelInfo:
    """Whether compiled kernels are active, and why not if they are not."""
    if os.environ.get(VARIABLE, "").lower() in {"off", "0", "false", "no"}:
        return KernelInfo(is_active=False, reason=_SWITCHED_OFF)
    try:
        from lm_datafusion.kernels.columns import SIMD
    except ModuleNotFoundError:
        return KernelInfo(is_active=False, reason="not compiled")
    except ImportError as error:
        return KernelInfo(is_active=False, reason=f"not loaded: {error}")
    return KernelInfo(is_active=True, simd=SIMD)


@functools.cache
def warn_if_missing() -> None:
    """Warns once per process that kernels are missing, unless they were turned off."""
    info = kernel_info()
    if not info.is_active and info.reason != _SWITCHED_OFF:
        warnings.warn(
            f"lm_datafusion runs without its compiled kernels ({info.reason}): scans are slower."
            " Install a C compiler and Python's headers, then reinstall the package.",
            KernelWarning,
            stacklevel=2,
        )
