"""Throughput of Spark's batch source on local[2], to the noop sink: `python -m benchmarks.spark_source [--quick]`.

In one session, in turns: ours, the same harness around confluent-kafka, and an Arrow source that only hands out rows.
Then ours again with clocks, for the shares of decoding, network and Spark in the CPU time. The broker takes its part of
the same cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks import cases
from benchmarks.cases import Case, Figures
from benchmarks.report import Results, heading, row
from benchmarks.run import Load
from benchmarks.server import ROOT, Ottla

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.append(str(ROOT / "tests"))

PARTITIONS = 2
RECORD_SIZES = (100, 1024)
SOURCES = ("ottla", "confluent", "synthetic")
LIMITS = {"confluent": 3.0, "synthetic": 0.5}

SIZES = {  # full, quick
    "bytes": (400_000_000, 40_000_000),
}


def sources(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    from benchmarks.spark_sources import ClockedSource, ConfluentSource, SyntheticSource
    from support.spark import start_session

    spark = start_session(base / "spark")
    try:
        for source in (ClockedSource, ConfluentSource, SyntheticSource):
            spark.dataSource.register(source)
        for size in RECORD_SIZES:
            rows = options.bytes // size // PARTITIONS * PARTITIONS
            with Ottla(base) as server:
                server.create_topic("read", PARTITIONS)
                case = {"topic": "read", "partitions": PARTITIONS, "size": size, "count": rows}
                Load(server, "produce", **case).run()
                harness = {"bootstrap": server.bootstrap, "topic": "read", "partitions": PARTITIONS, "size": size}
                ours = {"kafka.bootstrap.servers": server.bootstrap, "subscribe": "read"}
                every = {name: {**harness, "rows": rows // PARTITIONS} for name in SOURCES} | {"ottla": ours}
                clocks = base / f"clocks-{size}"
                clocks.mkdir()
                every["ottla-clocked"] = {**ours, "clocks": str(clocks)}
                for name, choices in every.items():  # what is compiled and loaded once
                    _read(spark, server, name, choices, rows)
                for _ in range(options.rounds):
                    for name, choices in every.items():
                        _ = [file.unlink() for file in clocks.iterdir()]
                        figures = _read(spark, server, name, choices, rows)
                        for file in clocks.iterdir():
                            for line in file.read_text().splitlines():
                                for part, seconds in json.loads(line).items():
                                    figures[f"{part}_s"] = figures.get(f"{part}_s", 0.0) + seconds
                        yield f"{size} {name}", figures
    finally:
        spark.stop()


def _read(spark: SparkSession, server: Ottla, name: str, choices: dict[str, object], rows: int) -> Figures:
    frame = spark.read.format(name).options(**choices).load()
    before, broker, began = _cpu_seconds(), server.cpu_seconds(), time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    seconds = time.monotonic() - began
    after = _cpu_seconds()
    return {
        "records": rows,
        "seconds": seconds,
        "broker_s": server.cpu_seconds() - broker,
        **{f"{kind}_s": after[kind] - before[kind] for kind in after},
    }


def _cpu_seconds() -> dict[str, float]:
    """CPU time so far of the JVM, and of the Python workers below it."""
    found = {"jvm": 0.0, "python": 0.0}
    for child in psutil.Process().children():
        if "java" not in child.name():
            continue
        found["jvm"] += sum(child.cpu_times()[:2])
        for worker in child.children(recursive=True):
            if worker.is_running():
                found["python"] += sum(worker.cpu_times())
    return found


def table(results: Results) -> str:
    lines: list[str] = []
    for size in RECORD_SIZES:
        rates = {name: _rate(results[f"{size} {name}"]) for name in SOURCES}
        columns = ["source", "rows/s", "ours: times the rate", "JVM", "Python", "broker (CPU µs a row)"]
        lines += heading(f"{size} B to the noop sink", columns)
        for name in SOURCES:
            one = results[f"{size} {name}"]
            ratio = f"{rates['ottla'] / rates[name]:.2f}"
            limit = f" (≥ {LIMITS[name]})" if size == RECORD_SIZES[0] and name in LIMITS else ""
            costs = [f"{one[f'{part}_s'] / one['records'] * 1e6:.3f}" for part in ("jvm", "python", "broker")]
            lines.append(row([name, f"{rates[name]:,.0f}", ratio + limit, *costs]))
        one = results[f"{size} ottla-clocked"]
        total = one["jvm_s"] + one["process_s"]
        shares = {
            "network (fetching, asyncio)": one["fetch_s"],
            "decoding": one["decode_s"],
            "Spark in the worker (Arrow to the socket)": one["process_s"] - one["fetch_s"] - one["decode_s"],
            "Spark in the JVM": one["jvm_s"],
        }
        lines += heading(f"Where the CPU time of ours goes, {size} B", ["part", "µs a row", "share"])
        for name, seconds in shares.items():
            lines.append(row([name, f"{seconds / one['records'] * 1e6:.3f}", f"{seconds / total:.0%}"]))
    return "\n".join(lines).lstrip()


def _rate(one: Results) -> float:
    return float(one["records"] / one["seconds"])


CASES: dict[str, Case] = {"sources": sources}


if __name__ == "__main__":
    cases.run("spark_source", __doc__, CASES, SIZES, table)
