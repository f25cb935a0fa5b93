"""Builds the compiled kernels where that is possible; everything else is in pyproject.toml.

Without a C compiler, without Python's headers or after an error of Cython's, the package is
installed without kernels: PyArrow then decodes every page. `pip install -v` shows why.
"""

from __future__ import annotations

import os
import sys
from glob import glob

from setuptools import Extension, setup

FOLDER = "lm_datafusion/kernels"
SANITIZE = os.environ.get("LM_DATAFUSION_SANITIZE", "")
FLAGS = ["-O3", "-g0", "-Wall", "-Wno-unused-function"] if sys.platform != "win32" else ["/O2"]
if SANITIZE:
    FLAGS = ["-O1", "-g1", "-fno-omit-frame-pointer", "-Wno-unused-function"]
    FLAGS += [f"-fsanitize={SANITIZE}"]


def kernels() -> list[Extension]:
    """The extensions, translated to C; none if that fails."""
    extensions = [
        Extension(
            f"lm_datafusion.kernels.{name}",
            [f"{FOLDER}/{name}.pyx"],
            depends=sorted(glob(f"{FOLDER}/*.h") + glob(f"{FOLDER}/*.pxi")),
            include_dirs=[FOLDER],
            extra_compile_args=FLAGS,
            extra_link_args=[f"-fsanitize={SANITIZE}"] if SANITIZE else [],
        )
        for name in ("pages", "columns")
    ]
    try:
        from Cython.Build import cythonize

        # Of a build with sanitizers nothing is left beside the sources.
        build_dir = os.environ.get("LM_DATAFUSION_BUILD_DIR") or None
        translated = cythonize(extensions, build_dir=build_dir)
    except Exception as error:  # noqa: BLE001 whatever it is, the package works without
        print(f"no compiled kernels: Cython failed: {error!r}", file=sys.stderr)  # noqa: T201
        return []
    for extension in translated:
        extension.optional = True  # cythonize forgets it, if it is said before
    return translated


setup(ext_modules=kernels(), options={"build_ext": {"parallel": True}})
