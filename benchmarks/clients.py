"""Benchmarks of the Python client beside others: `python -m benchmarks.clients [--quick]`; part of `make bench`.

Each client is a process of its own. It sends the same records to the same broker, one call a record in the way that
its documentation shows as the fast one (ours also a thousand at a time), each round to a new topic; or it reads one
topic to its end. What counts is the client's own CPU time a record: records a second also depend on what the broker
beside it takes of the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks import cases, client_report
from benchmarks.cases import Case, Figures
from benchmarks.client_consumers import CONSUMERS
from benchmarks.client_load import PRODUCERS
from benchmarks.run import Load
from benchmarks.server import Ottla

RECORD_SIZES = (100, 1024)
PARTITIONS = 4

SIZES = {  # full, quick
    "records": (300_000, 30_000),
}


def produce(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for size in RECORD_SIZES:
        with Ottla(base) as server:
            for number in range(options.rounds):
                for client in PRODUCERS:
                    topic = f"{client}-{number}".replace(" ", "-")
                    server.create_topic(topic, PARTITIONS)
                    case = {"client": client, "topic": topic, "size": size, "count": options.records}
                    figures = Load(server, "produce", module="benchmarks.client_load", **case).run()
                    if figures["written"] != options.records:
                        raise SystemExit(f"benchmarks: {client} wrote {figures['written']} of {options.records}")
                    yield f"produce {size} {client}", figures


def consume(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for size in RECORD_SIZES:
        with Ottla(base) as server:
            case = {"topic": "read", "size": size, "count": options.records}
            server.create_topic("read", PARTITIONS)
            Load(server, "produce", module="benchmarks.client_load", client="confluent-kafka", **case).run()
            for _ in range(options.rounds):
                for client in CONSUMERS:
                    figures = Load(server, "consume", module="benchmarks.client_load", client=client, **case).run()
                    yield f"consume {size} {client}", figures


CASES: dict[str, Case] = {"produce": produce, "consume": consume}


if __name__ == "__main__":
    cases.run("clients", __doc__, CASES, SIZES, client_report.table)
