"""Reads from some partitions, writes to others, and commits what it has read together with what it has written.

Either it has its partitions for itself (its transactional id keeps its zombies away), or its group gives them to it
(the generation does). After every transaction that does not count it goes back to what the group has committed, which
the coordinator tells only when no transaction of another is open over it (KIP-447).
"""

from __future__ import annotations

import os
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from support.deadlines import DEADLINE_S
from support.pulse import Pulse
from support.transfers.client import CALL_S, STUCK, Client, Plan, text_of
from support.transfers.group_consumer import group_consumer

POLL_S = 0.03
Assigned = list[TopicPartition]


class Transferer(Client):
    """Read, process, write."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._rebalances = 0
        self._consumer = self._open()

    def _open(self) -> Consumer:
        self._pulse = Pulse()
        consumer = group_consumer(self.plan, "earliest", self._pulse)
        if self.plan.subscribes:
            topics = sorted({topic for topic, _ in self.plan.sources})
            consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)
        return consumer

    def _on_assign(self, _consumer: Consumer, _partitions: Assigned) -> None:
        self._rebalances += 1

    def _on_revoke(self, _consumer: Consumer, _partitions: Assigned) -> None:
        self._rebalances += 1

    def began(self) -> None:
        """Begin at the group's offsets: the transactions of the previous producer are decided."""
        self.aborted()

    def fill(self) -> bool:
        """Poll, send for every record one or two, and say which offsets that makes."""
        wanted = self.rng.choice((1, 3, 8, 20))
        rebalances = self._rebalances
        offsets: dict[tuple[str, int], int] = {}
        until = time.monotonic() + 0.2
        while wanted > 0 and time.monotonic() < until and not (offsets and self.is_over()):
            message = self._consumer.poll(POLL_S)
            if self._rebalances != rebalances:
                if offsets or message is not None:
                    return False  # what we have read may be somebody else's by now
                rebalances = self._rebalances
            if message is None:
                if self._pulse.has_stopped:
                    os._exit(STUCK)
                if offsets or self.is_over():
                    break
                continue
            if message.error() is not None:
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            self.journal.note("input", topic, partition, offset, text_of(message))
            offsets[topic, partition] = offset + 1
            wanted -= 1
            for _ in range(self.rng.choice((1, 1, 2))):
                self.send(self.rng.choice(self.plan.targets))
        if not offsets:
            return False
        ends = [(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self.journal.note("offsets", self.plan.group, ends)
        self.call_or_end(self._send_offsets, [TopicPartition(*end) for end in ends])
        return True

    def _send_offsets(self, ends: Assigned) -> None:
        self.producer.send_offsets_to_transaction(ends, self._consumer.consumer_group_metadata(), CALL_S)

    def aborted(self) -> None:
        """Return to the group's offsets."""
        if not self.plan.subscribes:
            own = [TopicPartition(*source) for source in self.plan.sources]
            self._consumer.assign(self._committed(own))
            return
        assigned = self._consumer.assignment()
        if not assigned:
            return
        try:
            for one in self._committed(assigned):
                self._consumer.seek(one)
        except KafkaException as error:  # a rebalance is under way, or it has not begun to fetch
            self.journal.note("reopen", str(error))
            self.close()
            self._consumer = self._open()

    def _committed(self, partitions: Assigned) -> Assigned:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                found = self._consumer.committed(partitions, CALL_S)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._STATE or time.monotonic() > deadline:
                    raise
                continue
            if all(one.error is None for one in found):
                self.journal.note("at", [(one.topic, one.partition, one.offset) for one in found])
                return [TopicPartition(one.topic, one.partition, max(one.offset, 0)) for one in found]
            assert time.monotonic() < deadline, found

    def close(self) -> None:
        """Leave the group."""
        self.call_or_end(self._consumer.close)
