"""A member of a group without transactions: polls, and commits what it has polled before it polls again.

Its journal is that of a reader that begins at the group's offset with every assignment.
"""

from __future__ import annotations

import os
import time
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from support.pulse import Pulse
from support.transfers.client import CALL_S, DEADLINE_S, STUCK, Client, text_of
from support.transfers.group_consumer import group_consumer
from support.transfers.journal import Journal

Assigned = list[TopicPartition]
POLL_S = 0.1
PAUSE_S = 0.05


class GroupMember(Client):
    """One member."""

    def run(self) -> None:
        """Poll until the run ends."""
        self.journal = Journal(self.plan.directory / f"{self.plan.name}.jsonl")
        self.journal.note("read", True, False)
        self._consumer = self._open()
        while not self.is_over():
            self._step()
        self.call_or_end(self._consumer.close)

    def _open(self) -> Consumer:
        self._pulse = Pulse()
        consumer = group_consumer(self.plan, "error", self._pulse)
        topics = sorted({topic for topic, _ in self.plan.sources})
        consumer.subscribe(topics, on_assign=self._on_assign)
        return consumer

    def _on_assign(self, consumer: Consumer, partitions: Assigned) -> None:
        """Begin at the group's offsets, and note them."""
        found = self._committed(consumer, partitions)
        begin = [TopicPartition(one.topic, one.partition, max(one.offset, 0)) for one in found]
        for one in begin:
            self.journal.note("seek", one.topic, one.partition, one.offset)
        if self.plan.protocol == "consumer":
            consumer.incremental_assign(begin)
        else:
            consumer.assign(begin)

    def _committed(self, consumer: Consumer, partitions: Assigned) -> Assigned:
        """The group's offsets; none if the run ends before the coordinator tells them.

        The consumer is then assigned nothing: without a word from here, it would poll where the journal does not say.
        """
        while not self.is_over():
            asked_ns = time.monotonic_ns()
            try:
                found = consumer.committed(partitions, CALL_S)
            except KafkaException as error:
                self.journal.note("error", str(error))
            else:
                if all(one.error is None for one in found):
                    offsets = [(one.topic, one.partition, one.offset) for one in found]
                    self.journal.note("position", self.plan.group, asked_ns, offsets)
                    return found
            time.sleep(PAUSE_S)
        return []

    def _step(self) -> None:
        message = self._consumer.poll(POLL_S)
        if message is None:
            if self._pulse.has_stopped:
                os._exit(STUCK)
            return
        topic, partition, error, offset = message.topic(), message.partition(), message.error(), message.offset()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                self.journal.note("reset", topic, partition)
            return
        assert topic is not None
        assert partition is not None
        assert offset is not None
        self.journal.note("poll", [(topic, partition, offset, text_of(message))])
        if self.rng.random() < 0.2:
            self._commit()

    def _commit(self) -> None:
        try:
            told = self.call_or_end(partial(self._consumer.commit, asynchronous=False), within_s=DEADLINE_S) or []
            kept = [(one.topic, one.partition, one.offset) for one in told if one.error is None and one.offset >= 0]
            self.journal.note("kept", self.plan.group, kept)
        except KafkaException as error:
            self.journal.note("error", str(error))
