"""ClickBench: data like that of the benchmark, runs of its 43 queries, and what came out.

    python -m clickbench generate | ingest | validate | run | report

In: a number of rows, or the real files. Out: Parquet in a chosen layout, measurements, a report.
"""
