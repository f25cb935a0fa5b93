"""Builds the compiled kernels, if a C compiler is there; everything else is in pyproject.toml."""

from __future__ import annotations

import glob
import os
import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

SANITIZE = os.environ.get("LM_DATAFUSION_SANITIZE", "")
FLAGS = ["-O3", "-Wall", "-Wno-unused-function"] if sys.platform != "win32" else ["/O2"]
if SANITIZE:
    FLAGS = ["-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"lm_datafusion.kernels.{name}",
                [f"lm_datafusion/kernels/{name}.pyx"],
                include_dirs=["lm_datafusion/kernels"],
                depends=glob.glob("lm_datafusion/kernels/*.h"),
                extra_compile_args=FLAGS,
                extra_link_args=[f"-fsanitize={SANITIZE}"] if SANITIZE else [],
                optional=True,
            )
            for name in ("pages", "columns")
        ]
    )
)
