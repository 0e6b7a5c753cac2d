"""Benchmarks of groups and transactions: `python -m benchmarks.coordinators [--quick]`; part of `make bench`.

How long a rebalance takes of which the members make no pause, commits of offsets, the start of a coordinator that has
500,000 commits to read, and transactions one after another. Each case has a broker of its own; the table names medians
of the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import coordinator_report
from benchmarks.coordinator_load import TOPIC
from benchmarks.run import RESULTS, Load, environment, medians
from benchmarks.server import Ottla, Server, directory

MEMBERS = (2, 20, 200)
RECORDS = (1, 100)
PARTITIONS = (1, 100)

# full, quick
REBALANCES = (20, 3)
REQUESTS = (20_000, 2_000)
TRANSACTIONS = (1_000, 100)
LOADED_COMMITS = (500_000, 50_000)
ROUNDS = (3, 1)

Figures = dict[str, Any]


class Coordinator(Ottla):
    """The broker with what makes figures repeatable: no wait for more members, no compaction meanwhile."""

    name = "coordinator"

    def command(self) -> list[str]:
        settings = {"group.initial.rebalance.delay.ms": "0", "log.cleaner.enable": "false"}
        return [*super().command(), *(part for pair in settings.items() for part in ("--set", "=".join(pair)))]


def load(server: Server, command: str, **options: object) -> Figures:
    return Load(server, command, module="benchmarks.coordinator_load", **options).run()


def rebalances(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for members in MEMBERS:
        with Coordinator(base) as server:
            yield f"rebalance {members}", load(server, "rebalance", members=members, count=options.rebalances)


def commits(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for partitions in PARTITIONS:
        with Coordinator(base) as server:
            server.create_topic(TOPIC, partitions)
            count = options.requests * (1 if partitions == 1 else 10)
            yield f"commit {partitions}", load(server, "commits", partitions=partitions, count=count)


def loading(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """A broker is started on what another has written; its clock starts with the process."""
    case = {"partitions": 100, "keys": 50_000}
    with Coordinator(base) as server:
        server.create_topic(TOPIC, 100)
        load(server, "commits", count=options.loaded_commits - case["keys"], **case)
        server.stop()
        server.start()
        began, cpu = time.monotonic(), server.cpu_seconds()
        figures = load(server, "loaded", **case)
        if figures["offsets"] != case["keys"]:
            raise SystemExit(f"benchmarks: {figures['offsets']} of {case['keys']} offsets were loaded")
        yield (
            "loading",
            figures
            | {
                "commits": options.loaded_commits,
                "started_cpu_s": cpu,
                "started_s": began - server.started_at,
                "total_cpu_s": server.cpu_seconds(),
            },
        )


def transactions(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for records in RECORDS:
        with Coordinator(base) as server:
            server.create_topic(TOPIC, 1)
            yield f"transaction {records}", load(server, "transactions", records=records, count=options.transactions)


CASES: dict[str, Callable[[Path, argparse.Namespace], Iterator[tuple[str, Figures]]]] = {
    "rebalances": rebalances,
    "commits": commits,
    "loading": loading,
    "transactions": transactions,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coordinators", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of little: does it work at all?")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--directory", type=Path, help="where files go (default: memory, where there is enough)")
    options = parser.parse_args()
    choice = 1 if options.quick else 0
    options.rounds = options.rounds or ROUNDS[choice]
    options.rebalances, options.requests = REBALANCES[choice], REQUESTS[choice]
    options.transactions, options.loaded_commits = TRANSACTIONS[choice], LOADED_COMMITS[choice]
    found: dict[str, list[Figures]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-coordinators-", dir=options.directory or directory()) as base:
        for case, number in itertools.product(options.cases, range(options.rounds)):
            print(f"{time.strftime('%H:%M:%S')} {case} round {number + 1}", file=sys.stderr, flush=True)
            for name, figures in CASES[case](Path(base), options):
                found.setdefault(name, []).append(figures)
    cases = {name: medians(rounds) for name, rounds in found.items()}
    text = coordinator_report.table(cases)
    print(text)
    if not options.quick and options.cases == list(CASES):
        results = {"environment": environment(), "cases": cases, "rounds": found}
        (RESULTS / "coordinators.json").write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "coordinators.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
