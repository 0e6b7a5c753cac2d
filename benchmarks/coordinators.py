"""Benchmarks of groups and transactions: `python -m benchmarks.coordinators [--quick]`; part of `make bench`.

How long a rebalance takes of which the members make no pause, commits of offsets, the start of a coordinator that has
500,000 commits to read, and transactions one after another. Each case has a broker of its own; the table names medians
of the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import cases, coordinator_report
from benchmarks.cases import Case, Figures
from benchmarks.coordinator_load import TOPIC
from benchmarks.run import Load
from benchmarks.server import Ottla, Server

MEMBERS = (2, 20, 200, 1000)
RECORDS = (1, 100)
PARTITIONS = (1, 100)

SIZES = {  # full, quick
    "rebalances": (20, 3),
    "requests": (20_000, 2_000),
    "transactions": (1_000, 100),
    "loaded_commits": (500_000, 50_000),
}


class Coordinator(Ottla):
    """The broker with what makes figures repeatable: no wait for more members, no compaction meanwhile."""

    name = "coordinator"

    def command(self) -> list[str]:
        settings = {
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.max.size": "2147483647",
            "group.coordinator.rebalance.protocols": "classic,consumer",
            "log.cleaner.enable": "false",
        }
        return [*super().command(), *(part for pair in settings.items() for part in ("--set", "=".join(pair)))]


def load(server: Server, command: str, **options: object) -> Figures:
    return Load(server, command, module="benchmarks.coordinator_load", **options).run()


def rebalances(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for members, _ in itertools.product(MEMBERS, range(options.rounds)):
        with Coordinator(base) as server:
            yield f"rebalance {members}", load(server, "rebalance", members=members, count=options.rebalances)


def consumer_rebalances(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """Groups of the protocol of KIP-848, with a partition for each member."""
    for members, _ in itertools.product(MEMBERS, range(options.rounds)):
        with Coordinator(base) as server:
            server.create_topic(TOPIC, members)
            case = {"members": members, "partitions": members, "count": options.rebalances}
            yield f"consumer rebalance {members}", load(server, "consumer-rebalance", **case)


def commits(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for partitions, _ in itertools.product(PARTITIONS, range(options.rounds)):
        with Coordinator(base) as server:
            server.create_topic(TOPIC, partitions)
            count = options.requests * (1 if partitions == 1 else 10)
            yield f"commit {partitions}", load(server, "commits", partitions=partitions, count=count)


def loading(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """A broker is started on what another has written; its clock starts with the process."""
    case = {"partitions": 100, "keys": 50_000}
    for _ in range(options.rounds):
        with Coordinator(base) as server:
            server.create_topic(TOPIC, 100)
            load(server, "commits", count=options.loaded_commits - case["keys"], **case)
            server.stop()
            server.start()
            started_s = time.monotonic() - server.started_at
            figures = load(server, "loaded", **case)
            if figures["offsets"] != case["keys"]:
                raise SystemExit(f"benchmarks: {figures['offsets']} of {case['keys']} offsets were loaded")
            figures |= {"started_s": started_s, "total_cpu_s": server.cpu_seconds()}
            yield "loading", figures | {"commits": options.loaded_commits}


def transactions(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for records, _ in itertools.product(RECORDS, range(options.rounds)):
        with Coordinator(base) as server:
            server.create_topic(TOPIC, 1)
            yield f"transaction {records}", load(server, "transactions", records=records, count=options.transactions)


CASES: dict[str, Case] = {
    "rebalances": rebalances,
    "consumer-rebalances": consumer_rebalances,
    "commits": commits,
    "loading": loading,
    "transactions": transactions,
}


if __name__ == "__main__":
    cases.run("coordinators", __doc__, CASES, SIZES, coordinator_report.table)
