"""Replays a partition of `__consumer_offsets` from start to end: the result is the groups with their offsets.

The last record of each key counts. Offsets of a transaction count if its marker is a commit; without a marker in the
log the transaction stays open. A record or batch that cannot be decoded is logged and skipped: otherwise no group of
the partition could be served.

Before compaction, a log contains many commits of each topic partition. `GroupReplay` keeps their values as bytes and
decodes only the last ones at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from broker.coordinator.classic.group import Group
from broker.coordinator.consumer.group import AnyGroup, ConsumerGroup
from broker.coordinator.consumer.records import KEY_VERSIONS, ConsumerRecord, read_record
from broker.coordinator.group_records import GROUP_KEY_VERSION, OFFSET_KEY_VERSIONS, read_group, read_offset
from broker.coordinator.offsets import CommittedOffset, TopicPartition
from protocol.buffer import Buffer
from protocol.control_records import read_end_marker
from protocol.errors import ProtocolError
from protocol.message_set import LegacyMessage
from protocol.messages.consumer_group_metadata import ConsumerGroupMetadataKey
from protocol.messages.group_metadata import GroupMetadataKey, OffsetCommitKey
from protocol.record import Record
from protocol.record_batch import RecordBatch
from protocol.versioned import decode_versioned, peek_version

logger = logging.getLogger(__name__)

_VERSION_BYTES = 2
_Commit = tuple[Buffer, int]
"""The value of a record and the first offset of its batch."""


class GroupReplay:
    """Reads batches in the order of the log with `apply`; `groups` returns the result."""

    def __init__(self, name: str, now_ms: int) -> None:
        """name: the name of the partition in log messages."""
        self._name = name
        self._now_ms = now_ms
        self._groups: dict[str, AnyGroup] = {}
        # By key without its version: versions 0 and 1 have the same fields.
        self._committed: dict[bytes, _Commit] = {}
        self._open: dict[int, dict[bytes, _Commit]] = {}
        self._unknown_versions: set[int] = set()

    def apply(self, batch: RecordBatch | LegacyMessage) -> int:
        """Read one batch. Return the number of its records."""
        try:
            if isinstance(batch, RecordBatch) and batch.is_control:
                self._end_transaction(batch)
                return 1
            producer_id = batch.producer_id if isinstance(batch, RecordBatch) and batch.is_transactional else None
            count = 0
            first_offset = -1
            for record in batch.records():
                if count == 0:
                    first_offset = record.offset
                count += 1
                try:
                    self._take(record, first_offset, producer_id)
                except ProtocolError as error:
                    logger.error("%s: the record at offset %d is skipped: %s", self._name, record.offset, error)
        except ProtocolError as error:
            logger.error("%s: the batch that ends at offset %d is skipped: %s", self._name, batch.last_offset, error)
            return 1
        return count

    def _take(self, record: Record, first_offset: int, producer_id: int | None) -> None:
        key = record.key if record.key is not None else b""
        version = peek_version(key)
        if version in OFFSET_KEY_VERSIONS:
            offsets = self._committed if producer_id is None else self._open.setdefault(producer_id, {})
            name = bytes(key[_VERSION_BYTES:])
            if record.value is None:
                offsets.pop(name, None)
            else:
                offsets[name] = (record.value, first_offset)
        elif version == GROUP_KEY_VERSION:
            group_id = decode_versioned(GroupMetadataKey, key)[0].group
            if record.value is not None:
                self._groups[group_id] = read_group(group_id, record.value, self._now_ms)
            elif isinstance(self._groups.get(group_id), Group):
                del self._groups[group_id]
        elif version in KEY_VERSIONS:
            self._take_consumer_record(read_record(key, record.value))
        elif version not in self._unknown_versions:
            self._unknown_versions.add(version)
            logger.warning("%s: records with keys of version %d are skipped", self._name, version)

    def _take_consumer_record(self, record: ConsumerRecord) -> None:
        """Apply a record of a consumer group.

        A change of the group's type is written as tombstones of the old type and values of the new type.
        """
        group_id = record.key.group_id  # type: ignore[attr-defined]  # every key has it
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = self._groups[group_id] = ConsumerGroup(group_id)
        if record.value is None and isinstance(record.key, ConsumerGroupMetadataKey):
            del self._groups[group_id]
        else:
            group.apply(record)

    def _end_transaction(self, batch: RecordBatch) -> None:
        marker = read_end_marker(batch)
        waiting = self._open.pop(batch.producer_id, {})
        if marker is None or not marker.committed:
            return
        for name, (value, first_offset) in waiting.items():
            known = self._committed.get(name)
            if known is None or known[1] < first_offset:
                self._committed[name] = (value, first_offset)

    def groups(self) -> dict[str, AnyGroup]:
        """Return the groups by id. A group that has only offsets is Empty and has no protocol type."""
        groups = dict(self._groups)
        for group_id, offsets in self._decoded(self._committed).items():
            self._group(groups, group_id).offsets.restore(offsets, {})
        for producer_id, waiting in self._open.items():
            for group_id, offsets in self._decoded(waiting).items():
                self._group(groups, group_id).offsets.restore({}, {producer_id: offsets})
        return groups

    def _decoded(self, commits: Mapping[bytes, _Commit]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Decode commits. Return the offsets by group id."""
        by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for name, (value, first_offset) in commits.items():
            try:
                key, _ = OffsetCommitKey.decode(name, OFFSET_KEY_VERSIONS[-1])
                offset = read_offset(value, first_offset)
            except ProtocolError as error:
                logger.error("%s: a commit at offset %d or later is skipped: %s", self._name, first_offset, error)
            else:
                by_group.setdefault(key.group, {})[(key.topic, key.partition)] = offset
        return by_group

    def _group(self, groups: dict[str, AnyGroup], group_id: str) -> AnyGroup:
        group = groups.get(group_id)
        if group is None:
            group = groups[group_id] = Group(group_id, self._now_ms)
        return group
