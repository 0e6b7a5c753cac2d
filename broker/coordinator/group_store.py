"""Writes groups and offsets to `__consumer_offsets`, and translates the errors of failed writes for clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from broker.coordinator.consumer.group import AnyGroup, ConsumerGroup
from broker.coordinator.coordinator_log import Appended, CoordinatorLog, settled
from broker.coordinator.group_records import Encoded, group_key, offset_key, offset_value
from broker.coordinator.offsets import Offsets, TopicPartition
from broker.settings.config import BrokerConfig
from protocol.compression import CompressionType
from protocol.error_codes import ErrorCode
from protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from protocol.record_batch_builder import RecordBatchBuilder

TOMBSTONES_BYTES = 256 * 1024
"""Tombstones are split into batches of about this size: a single batch could be too large for the log."""

R = TypeVar("R")

TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class GroupStore:
    """Builds batches and appends them in the current term."""

    def __init__(self, log: CoordinatorLog, config: BrokerConfig, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._config = config
        self._now_ms = now_ms

    def _write(
        self,
        group_id: str,
        batch: RecordBatchBuilder,
        finish: Callable[[Appended], R],
        in_log: Callable[[int], None] | None = None,
    ) -> asyncio.Future[R]:
        partition, config = self._log.partition_for(group_id), self._config
        return self._log.write(
            partition,
            self._log.term_of(partition),
            batch.build(),
            config.offsets_commit_timeout_ms,
            finish,
            in_log=in_log,
            required_acks=config.offsets_commit_required_acks,
        )

    def _batch(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> RecordBatchBuilder:
        return RecordBatchBuilder(
            compression=CompressionType(self._config.offsets_topic_compression_codec),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=producer_id != NO_PRODUCER_ID,
        )

    def store_group(
        self,
        group_id: str,
        record: bytes,
        *,
        in_log: Callable[[], None] | None,
        finish: Callable[[ErrorCode], R],
    ) -> asyncio.Future[R]:
        """Write the record of a classic group. in_log, finish: see coordinator_log.py."""
        batch = self._batch()
        batch.append(self._now_ms(), group_key(group_id), record)
        return self._write(group_id, batch, lambda appended: finish(_group_error(appended)), in_log and _called(in_log))

    def store_records(
        self, group_id: str, records: Iterable[Encoded], in_log: Callable[[], None]
    ) -> asyncio.Future[ErrorCode]:
        """Write the records of a consumer group as one batch. Return the code for the members."""
        batch = self._batch()
        now_ms = self._now_ms()
        for key, value in records:
            batch.append(now_ms, key, value)
        return self._write(group_id, batch, _consumer_error, _called(in_log))

    def store_offsets(
        self,
        group_id: str,
        offsets: Offsets,
        in_log: Callable[[int], None],
        finish: Callable[[Appended], R],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> asyncio.Future[R]:
        """Write offsets; with a producer id, as a part of the producer's transaction.

        in_log, finish: see coordinator_log.py.
        """
        batch = self._batch(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0)
        now_ms = self._now_ms()
        for partition, offset in offsets.items():
            batch.append(now_ms, offset_key(group_id, partition), offset_value(offset))
        return self._write(group_id, batch, finish, in_log)

    def store_deletion(
        self,
        group: AnyGroup,
        partitions: Iterable[TopicPartition],
        *,
        whole_group: bool,
        in_log: Callable[[], None],
    ) -> asyncio.Future[ErrorCode]:
        """Write tombstones of offsets and, with `whole_group`, of the group itself if it has ever had members.

        The future and `in_log` are those of the last batch: when it is committed, the earlier ones are committed too. A
        batch that the log refuses is the last one.
        """
        now_ms = self._now_ms()
        keys = [offset_key(group.group_id, partition) for partition in partitions]
        if whole_group:
            if isinstance(group, ConsumerGroup):
                keys += [record.encoded()[0] for record in group.tombstones()]
            elif group.generation > 0:
                keys.append(group_key(group.group_id))
        batch = self._batch()
        for key in keys:
            if batch.size_estimate > TOMBSTONES_BYTES:
                code = self._write(group.group_id, batch, _error)
                if code.done() and code.result():
                    return code
                batch = self._batch()
            batch.append(now_ms, key, None)
        if batch.count:
            return self._write(group.group_id, batch, _error, _called(in_log))
        in_log()
        return settled(ErrorCode.NONE)


def _called(in_log: Callable[[], None]) -> Callable[[int], None]:
    return lambda _: in_log()


def _error(appended: Appended) -> ErrorCode:
    return appended.error


def _group_error(appended: Appended) -> ErrorCode:
    """Return the code for the members if the record of their group could not be written."""
    if appended.error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.UNKNOWN_SERVER_ERROR if appended.error in TOO_LARGE else appended.error


def _consumer_error(appended: Appended) -> ErrorCode:
    """Return the code for the members if the records of their consumer group could not be written."""
    if appended.error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.UNKNOWN_SERVER_ERROR if appended.error in TOO_LARGE else appended.error


def offset_error(code: ErrorCode) -> ErrorCode:
    """Return the code for a client whose offsets could not be written."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code in TOO_LARGE else code
