"""Tests of kernels need kernels: without a C compiler there are none."""

from __future__ import annotations

import pytest

pytest.importorskip("lm_datafusion.kernels.columns")

from lm_datafusion.kernels.columns import choose_simd


@pytest.fixture(params=["simd", "portable"])
def simd(request):
    """Each test with the processor's vector instructions, and without."""
    choose_simd(portable=request.param == "portable")
    yield request.param
    choose_simd()
