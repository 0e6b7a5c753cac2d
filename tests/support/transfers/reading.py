"""Readers of the workload, each in a thread, and the final contents of partitions and groups."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from support.deadlines import DEADLINE_S
from support.pulse import Pulse, give_up
from support.transfers.client import CALL_S, FAST, text_of
from support.transfers.history import Partition, Rest
from support.transfers.journal import Journal


def _consumer(servers: str, *, committed: bool, group: str = "none", pulse: Pulse | None = None) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "check.crcs": True,
            **FAST,
            **({} if pulse is None else pulse.settings),
        }
    )


class AnyReader(Protocol):
    """A reader of a run, which works in a thread."""

    def finish(self, targets: Mapping[Partition, int]) -> None:
        """Read up to these offsets, or until a timeout."""

    def stop(self) -> None:
        """Stop reading. Does nothing if it has ended."""


class ReaderThread:
    """Reads some partitions from their beginnings to their ends; one that wanders goes back now and then."""

    def __init__(
        self, name: str, servers: str, directory: Path, partitions: Iterable[Partition], *, committed: bool,
        wanders: random.Random | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._journal = Journal(directory / f"{name}.jsonl")
        self._journal.note("read", committed, True)
        self._positions = dict.fromkeys(partitions, 0)
        self._ends = dict.fromkeys(self._positions, 0)
        self._wanders = wanders
        self._targets: Mapping[Partition, int] | None = None
        self._deadline = 0.0
        self._servers = servers
        self._committed = committed
        self._open()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _open(self) -> None:
        self._pulse = Pulse()
        self._consumer = _consumer(self._servers, committed=self._committed, pulse=self._pulse)
        self._assign()

    def _assign(self) -> None:
        for partition, offset in self._positions.items():
            self._journal.note("seek", *partition, offset)
        self._consumer.assign([TopicPartition(*each, offset) for each, offset in self._positions.items()])

    def _run(self) -> None:
        while not self._is_done():
            self._read()
            if self._pulse.has_stopped:
                give_up(self._consumer)
                self._open()
            if self._wanders is not None and self._targets is None and self._wanders.random() < 0.1:
                self._wander(self._wanders)
        self._consumer.close()
        self._journal.close()

    def _is_done(self) -> bool:
        targets = self._targets
        if targets is None:
            return False
        return all(self._ends[each] >= end for each, end in targets.items()) or time.monotonic() > self._deadline

    def _read(self) -> None:
        records: list[tuple[str, int, int, str]] = []
        ends: list[Partition] = []
        for message in self._consumer.consume(200, 0.05):
            topic, number, error, offset = message.topic(), message.partition(), message.error(), message.offset()
            if topic is None or number is None:
                continue
            if error is None:
                assert offset is not None
                records.append((topic, number, offset, text_of(message)))
                self._positions[topic, number] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                assert offset is not None
                self._poll_noted(records)
                ends.append((topic, number))
                self._journal.note("end", topic, number, offset)
                self._ends[topic, number] = offset
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._journal.note("reset", topic, number)
        self._poll_noted(records)

    def _poll_noted(self, records: list[tuple[str, int, int, str]]) -> None:
        if records:
            self._journal.note("poll", records)
            records.clear()

    def _wander(self, rng: random.Random) -> None:
        for partition, position in self._positions.items():
            if rng.random() < 0.3:
                self._positions[partition] = rng.randint(0, position)
        self._assign()

    def finish(self, targets: Mapping[Partition, int]) -> None:
        """Read up to these offsets, or until the timeout."""
        self._deadline = time.monotonic() + DEADLINE_S
        self._targets = targets
        self._thread.join(2 * DEADLINE_S)
        assert not self._thread.is_alive(), self.name

    def stop(self) -> None:
        """Stop reading. Does nothing if it has ended."""
        self._targets = {}


def rest_of(admin: AdminClient, servers: str, partitions: Iterable[Partition]) -> dict[Partition, Rest]:
    """What is in the partitions, once no transaction is open any more, or until that takes too long."""
    deadline = time.monotonic() + DEADLINE_S
    where = list(partitions)
    while True:
        ends = _ends(admin, where, IsolationLevel.READ_UNCOMMITTED)
        stable = _ends(admin, where, IsolationLevel.READ_COMMITTED)
        rest = {each: Rest(ends[each], stable[each]) for each in where}
        if all(one.stable >= one.end for one in rest.values()) or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    everything = _read_to(servers, ends, committed=False)
    visible = _read_to(servers, stable, committed=True)
    for each, one in rest.items():
        one.everything, one.committed = everything[each], visible[each]
    return rest


def _ends(admin: AdminClient, partitions: Iterable[Partition], isolation: IsolationLevel) -> dict[Partition, int]:
    asked = {TopicPartition(*each): OffsetSpec.latest() for each in partitions}
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=CALL_S)
    return {(each.topic, each.partition): answer.result(CALL_S).offset for each, answer in answers.items()}


def _read_to(servers: str, ends: Mapping[Partition, int], *, committed: bool) -> dict[Partition, dict[int, str]]:
    """All values from the beginnings to the ends."""
    found: dict[Partition, dict[int, str]] = {each: {} for each in ends}
    left = {each for each, end in ends.items() if end > 0}
    consumer = _consumer(servers, committed=committed)
    consumer.assign([TopicPartition(*each, 0) for each in left])
    deadline = time.monotonic() + DEADLINE_S
    while left:
        assert time.monotonic() < deadline, f"no end of {left}"
        for message in consumer.consume(1000, 0.1):
            topic, number, error, offset = message.topic(), message.partition(), message.error(), message.offset()
            if topic is None or number is None or offset is None:
                continue
            if error is None:
                found[topic, number][offset] = text_of(message)
            elif error.code() == KafkaError._PARTITION_EOF and offset >= ends[topic, number]:
                left.discard((topic, number))
    consumer.close()
    return found


def committed_offsets(servers: str, group: str, partitions: Iterable[Partition]) -> dict[tuple[str, Partition], int]:
    """The committed offsets of a group."""
    consumer = _consumer(servers, committed=True, group=group)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            found = consumer.committed([TopicPartition(*each) for each in partitions], CALL_S)
            if all(one.error is None for one in found):
                break
        except KafkaException:
            pass
        assert time.monotonic() < deadline, f"no offsets of {group}"
    consumer.close()
    return {(group, (one.topic, one.partition)): one.offset for one in found if one.offset >= 0}
