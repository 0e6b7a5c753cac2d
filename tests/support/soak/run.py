"""One round of a long run: a run of transfers on a cluster, with more kinds of clients, judged at its end."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from support.soak.cluster import SoakCluster
from support.soak.spark import spark_readers
from support.transfers.checker import check
from support.transfers.dependencies import permitted
from support.transfers.feeder import OnceFeeder, PlainFeeder
from support.transfers.group_member import GroupMember
from support.transfers.history import History, Partition, Poll
from support.transfers.reading import AnyReader
from support.transfers.report import report
from support.transfers.run import Run, Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIGS = {"min.insync.replicas": "2", "retention.ms": "-1"}
"""Clocks step: no record may expire."""


class SoakRun(Run):
    """See the module's text."""

    def __init__(
        self, seed: int, cluster: SoakCluster, directory: Path, faults: int, spark: SparkSession | None
    ) -> None:
        self.cluster = cluster
        self._spark = spark
        scene = Scene(
            cluster.bootstrap_servers,
            lambda *parts: cluster.nemesis(lambda: self.partitions, *parts),
            strikes=(faults,),
            replicas=3,
            topic_configs=CONFIGS,
            protocols=("classic", "consumer"),
        )
        super().__init__(seed, scene, directory)

    def _start_clients(self, topics: dict[str, list[Partition]]) -> None:
        """Besides those of a run: producers without transactions, and groups of both protocols that commit by hand."""
        super()._start_clients(topics)
        first, middle, out = topics.values()
        self._start(PlainFeeder, self._plan("idempotent", [*first, *out]))
        self._start(OnceFeeder, self._plan("once", [*middle, *out]))
        for protocol in ("classic", "consumer"):
            for number in range(2):
                plan = self._plan(f"member-{protocol}-{number}", [])
                group = f"{self._name}-{protocol}"
                plan = dataclasses.replace(plan, sources=(*first, *out), group=group, protocol=protocol)
                self._start(GroupMember, plan)

    def _readers(self, partitions: list[Partition]) -> list[AnyReader]:
        """Besides those of a run: Spark."""
        more = [] if self._spark is None else spark_readers(self._spark, self._servers, self.directory, partitions)
        return [*super()._readers(partitions), *more]

    def judge(self, history: History) -> str:
        """A report of the anomalies of the history, "" without one; replicas that differ are an AssertionError."""
        found = check(history)
        self.cluster.check_replicas(self.partitions)
        return report(self.directory, history, found) if found else ""


def summary(history: History, run: SoakRun) -> Counter[str]:
    """How much of everything there was."""
    seen = Counter(f"{one.outcome.value} transactions" for one in history.transactions if one.transactional_id)
    seen["plain records"] = sum(one.transactional_id is None for one in history.transactions)
    seen["commits of groups"] = len(history.commits)
    seen["records at the end"] = sum(len(rest.everything) for rest in history.rest.values())
    polls = [event for reader in history.readers for event in reader.events if isinstance(event, Poll)]
    seen["records polled"] = sum(len(poll.records) for poll in polls)
    seen.update(f"permitted {one.kind.value}" for one in permitted(history))
    seen.update(f"fault {name}" for name in run.done)
    return seen
