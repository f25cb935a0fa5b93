"""What Spark's Parquet reader read for a query, and what it skipped where.

In: a Spark session and a query in Spark's SQL. Out: counts, each from runs of the query.

Rows come from the metrics of the scans in the executed plan, bytes from those of the tasks. Spark
does not say at which level rows were skipped, so the levels are switched on one after the other,
and what the next one takes away is its own.

Why without vectored I/O: Hadoop counts the bytes of the thread that asks for them, and vectored
reads happen in other threads: with them, 0.5 MB are counted of a query that reads 98 MB. Times
are to be taken elsewhere, with Spark as it comes.

Invariant: settings of the session are afterwards what they were.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# In the order in which parquet-java applies them.
LEVELS = {
    "statistics": "parquet.filter.stats.enabled",
    "dictionary": "parquet.filter.dictionary.enabled",
    "bloom filter": "parquet.filter.bloom.enabled",
    "page index": "parquet.filter.columnindex.enabled",
}
_VECTORED = "parquet.hadoop.vectored.io.enabled"
_SCAN = "FileSourceScanExec"
_PATIENCE_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkScan:
    """What the scans of one query did.

    Attributes:
        rows_out: Rows that the reader decoded and handed on.
        bytes_read: Bytes that tasks read from files, footers included.
        pushed_filters: Conditions that the reader was given, as Spark writes them.
    """

    rows_out: int
    bytes_read: int
    pushed_filters: tuple[str, ...]


def measure_scan(session: SparkSession, sql: str) -> SparkScan:
    """Runs a query and counts what was read for it."""
    context = session.sparkContext
    group = f"scan-{uuid.uuid4()}"
    with _settings(session, {_VECTORED: "false"}):
        frame = session.sql(sql)
        context.setJobGroup(group, "what is read")
        try:
            frame.toArrow()
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
    # Python has no way of its own to a plan's metrics, nor to those of tasks below.
    plan = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001
    scans = [node for node in _nodes(plan) if _is_scan(node)]
    return SparkScan(
        rows_out=sum(int(scan.metrics().apply("numOutputRows").value()) for scan in scans),
        bytes_read=_input_bytes(session, group),
        pushed_filters=tuple(filter(None, map(_pushed, scans))),
    )


def rows_skipped(session: SparkSession, sql: str) -> dict[str, int]:
    """Rows that each level of `LEVELS` kept from being decoded; a run per level and one more."""
    skipped = {}
    with _settings(session, dict.fromkeys(LEVELS.values(), "false")):
        before = measure_scan(session, sql).rows_out
        for level, name in LEVELS.items():
            session.conf.set(name, "true")
            after = measure_scan(session, sql).rows_out
            skipped[level] = before - after
            before = after
    return skipped


@contextmanager
def _settings(session: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """Settings for the time of a `with`."""
    before = {name: session.conf.get(name, None) for name in values}
    for name, value in values.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)


def _nodes(plan: Any) -> Iterator[Any]:
    """All nodes of a physical plan, those of its finished stages included."""
    yield plan
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from _nodes(plan.executedPlan())
    elif kind.endswith("QueryStageExec"):
        yield from _nodes(plan.plan())
    children = plan.children().iterator()
    while children.hasNext():
        yield from _nodes(children.next())


def _is_scan(node: Any) -> bool:
    return bool(node.getClass().getSimpleName() == _SCAN)


def _pushed(scan: Any) -> str:
    """As `IsNotNull(URL), StringContains(URL,google)`."""
    return str(scan.metadata().apply("PushedFilters")).strip("[]")


def _input_bytes(session: SparkSession, group: str) -> int:
    """Bytes that the tasks of a job group read."""
    context = session.sparkContext
    inner = context._jsc.sc()  # noqa: SLF001
    inner.listenerBus().waitUntilEmpty(_PATIENCE_MS)  # counts arrive in a thread of their own
    tracker = context.statusTracker()
    stages = {
        stage
        for job in tracker.getJobIdsForGroup(group)
        if (info := tracker.getJobInfo(job)) is not None
        for stage in info.stageIds
    }
    return sum(int(inner.statusStore().lastStageAttempt(stage).inputBytes()) for stage in stages)
