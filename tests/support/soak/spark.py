"""Spark as a reader of a round: batches that read everything again and again, and a stream; both read_committed.

Their journals are those of readers. A batch that fails, as brokers are away, is no event; a stream that fails is
started again from its checkpoint, and does its last batch once more.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from support.deadlines import DEADLINE_S
from support.transfers.history import Partition
from support.transfers.journal import Journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_S = 5 * DEADLINE_S
PAUSE_S = 1.0
Found = tuple[str, int, int, str]


class SparkReader(ABC):
    """The common part: options, the journal, and what is done in a thread until the round ends."""

    def __init__(
        self, name: str, session: SparkSession, servers: str, directory: Path, partitions: list[Partition]
    ) -> None:
        self._name = name
        self._session = session
        self._directory = directory
        self._partitions = partitions
        self._options = {
            "kafka.bootstrap.servers": servers,
            "kafka.isolation.level": "read_committed",
            "subscribe": ",".join(sorted({topic for topic, _ in partitions})),
            "startingOffsets": "earliest",
        }
        self._journal = Journal(directory / f"{name}.jsonl")
        self._journal.note("read", True, True)
        self._seek()
        self._is_stopped = threading.Event()
        self._targets: Mapping[Partition, int] | None = None
        self._deadline = 0.0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _seek(self) -> None:
        for partition in self._partitions:
            self._journal.note("seek", *partition, 0)

    def _run(self) -> None:
        while not self._is_stopped.wait(PAUSE_S):
            self._attempt()
        targets = self._targets or {}
        while targets and not self._attempt() and time.monotonic() < self._deadline:
            time.sleep(PAUSE_S)
        self._end()
        self._journal.close()

    def _attempt(self) -> bool:
        """Read once. Return whether that succeeded; the last time, everything up to the targets is read then."""
        targets = self._targets
        try:
            self._read()
        except Exception as error:
            self._journal.note("error", type(error).__name__, str(error)[:2000])
            return False
        for partition, end in (targets or {}).items():
            self._journal.note("end", *partition, end)
        return True

    @abstractmethod
    def _read(self) -> None:
        """Read what there is, into the journal. Raises what Spark raises."""

    @abstractmethod
    def _end(self) -> None:
        """End what reads. Called when nothing is read any more."""

    @staticmethod
    def _collect(rows: DataFrame) -> list[Found]:
        found = rows.selectExpr("topic", "partition", "offset", "cast(value as string) value").collect()
        return sorted((row.topic, row.partition, row.offset, row.value.rstrip(".")) for row in found)

    def _note(self, records: list[Found]) -> None:
        if records:
            self._journal.note("poll", records)

    def finish(self, targets: Mapping[Partition, int]) -> None:
        """Read once more: everything up to these offsets."""
        self._deadline = time.monotonic() + PATIENCE_S
        self._targets = targets
        self._is_stopped.set()
        self._thread.join(2 * PATIENCE_S)
        assert not self._thread.is_alive(), self._name

    def stop(self) -> None:
        """Stop reading. Does nothing if it has ended."""
        self._is_stopped.set()
        self._thread.join(PATIENCE_S)


class SparkBatches(SparkReader):
    """Everything there is, again and again."""

    def _read(self) -> None:
        found = self._collect(self._session.read.format("ottla").options(**self._options).load())
        self._seek()
        self._note(found)

    def _end(self) -> None:
        """Nothing is left to end."""


class SparkStream(SparkReader):
    """A stream with a checkpoint."""

    _query: StreamingQuery | None = None
    _last = -1

    def _read(self) -> None:
        if self._query is None or not self._query.isActive:
            self._query = self._start()
        self._query.processAllAvailable()

    def _start(self) -> StreamingQuery:
        rows = self._session.readStream.format("ottla").options(**self._options).load()
        writer = rows.writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", str(self._directory / f"{self._name}-checkpoint")).start()

    def _take(self, rows: DataFrame, number: int) -> None:
        if number > self._last:
            self._note(self._collect(rows))
            self._last = number

    def _end(self) -> None:
        if self._query is not None:
            self._query.stop()


def spark_readers(
    session: SparkSession, servers: str, directory: Path, partitions: Iterable[Partition]
) -> list[SparkReader]:
    """Both."""
    there = (session, servers, directory, list(partitions))
    return [SparkBatches("spark-batches", *there), SparkStream("spark-stream", *there)]
