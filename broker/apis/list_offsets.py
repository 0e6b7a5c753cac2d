"""ListOffsets: look up offsets: earliest, latest, by timestamp, by maximum timestamp (KIP-79, KIP-734).

Negative timestamps are special: -1 latest, -2 earliest, -3 the record with the maximum timestamp, -4 the earliest
local offset (the log start offset, because Ottla has no tiered storage), -5 the latest tiered offset (none).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple

from broker.errors import code_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from replication.errors import OffsetNotAvailableError, ReplicationError
from replication.fetch import CONSUMER
from replication.isolation import Isolation
from replication.partition import Partition
from storage.errors import StorageError
from storage.log.log import Log
from storage.log.lookup import Found

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
UNKNOWN = -1

FIRST_VERSION_WITH_EPOCH = 4
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5

FIRST_VERSION_WITH = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
NEVER = 1 << 15


class _Lookup(NamedTuple):
    """A lookup by timestamp that is still to be made: its answer is `answers[number]`."""

    topic: str
    asked: ListOffsetsPartition
    answers: list[ListOffsetsPartitionResponse]
    number: int


class ListOffsetsHandler(Handler[ListOffsetsRequest, ListOffsetsResponse]):
    """Answers from the logs that this broker leads."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: ListOffsetsRequest, context: RequestContext
    ) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
        """See the module docstring. Lookups by timestamp read files; with one of them, the answer comes later."""
        isolation = Isolation(request.isolation_level == 1)
        if request.replica_id != CONSUMER:
            isolation = Isolation.LOG_END
        seen: set[tuple[str, int]] = set()
        twice: set[tuple[str, int]] = set()
        for topic in request.topics:
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                (twice if key in seen else seen).add(key)
        response = ListOffsetsResponse(topics=[])
        lookups: list[_Lookup] = []
        for topic in request.topics:
            answers: list[ListOffsetsPartitionResponse] = []
            for asked in topic.partitions:
                if (topic.name, asked.partition_index) in twice:
                    answers.append(_failed(asked, ErrorCode.INVALID_REQUEST))
                elif _reads_files(asked.timestamp, context.api_version):
                    lookups.append(_Lookup(topic.name, asked, answers, len(answers)))
                    answers.append(_failed(asked, ErrorCode.UNKNOWN_SERVER_ERROR))  # until `_look_up` replaces it
                else:
                    answers.append(self._answer(topic.name, asked, isolation, context.api_version))
            response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return self._look_up(response, lookups, isolation, context.api_version) if lookups else response

    async def _look_up(
        self, response: ListOffsetsResponse, lookups: list[_Lookup], isolation: Isolation, version: int
    ) -> ListOffsetsResponse:
        """Replace the answers of partitions that are asked for a timestamp, one partition after the other."""
        for topic, asked, answers, number in lookups:
            answers[number] = self._answer(topic, asked, isolation, version, await self._found(topic, asked))
        return response

    async def _found(self, topic: str, asked: ListOffsetsPartition) -> Found | Exception | None:
        """Return the record with the timestamp, or the error."""

        def log() -> Log:
            return self._services.replicas.partition(topic, asked.partition_index).leader_log(
                asked.current_leader_epoch
            )

        timestamp = None if asked.timestamp == MAX_TIMESTAMP else asked.timestamp
        try:
            return await self._services.logs.reads.look_up(log, timestamp)
        except (ReplicationError, StorageError, ProtocolError, OSError) as error:
            return error

    def _answer(
        self,
        topic: str,
        asked: ListOffsetsPartition,
        isolation: Isolation,
        version: int,
        found: Found | Exception | None = None,
    ) -> ListOffsetsPartitionResponse:
        """found: the result of a lookup by timestamp."""
        if asked.timestamp < 0 and version < FIRST_VERSION_WITH.get(asked.timestamp, NEVER):
            return _failed(asked, ErrorCode.UNSUPPORTED_VERSION)
        try:
            if isinstance(found, Exception):
                raise found
            partition = self._services.replicas.partition(topic, asked.partition_index)
            log = partition.leader_log(asked.current_leader_epoch)
            if version == 0:
                return ListOffsetsPartitionResponse(
                    partition_index=asked.partition_index,
                    old_style_offsets=_offsets_before(partition, log, asked.timestamp, asked.max_num_offsets),
                )
            timestamp, offset, epoch = _find(partition, log, asked.timestamp, isolation, found)
        except OffsetNotAvailableError:
            return _failed(
                asked,
                ErrorCode.OFFSET_NOT_AVAILABLE
                if version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
                else ErrorCode.LEADER_NOT_AVAILABLE,
            )
        except (ReplicationError, StorageError, ProtocolError, OSError) as error:
            return _failed(asked, code_of(error))
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=epoch if version >= FIRST_VERSION_WITH_EPOCH else UNKNOWN,
        )

    def failed(self, request: ListOffsetsRequest, code: ErrorCode) -> ListOffsetsResponse:
        """Return the answer with the error for every partition."""
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name, partitions=[_failed(asked, code) for asked in topic.partitions]
                )
                for topic in request.topics
            ]
        )


def _reads_files(timestamp: int, version: int) -> bool:
    """Whether the question is for a record, by its timestamp."""
    return version > 0 and (timestamp >= 0 or (timestamp == MAX_TIMESTAMP and version >= FIRST_VERSION_WITH[timestamp]))


def _find(partition: Partition, log: Log, timestamp: int, isolation: Isolation, found: Found | None) -> Found:
    """Return (timestamp, offset, leader epoch), each UNKNOWN if there is none. found: by timestamp.

    Raises OffsetNotAvailableError (KIP-207) if a new leader needs its high watermark for the answer and does not know
    it yet.
    """
    end = isolation.visible_end(log)
    is_behind = isolation is not Isolation.LOG_END and partition.is_high_watermark_behind
    if timestamp == LATEST:
        if is_behind:
            raise _not_available(partition)
        return UNKNOWN, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.leader_epochs.epoch_for_offset(log.log_start_offset)
        return UNKNOWN, log.log_start_offset, UNKNOWN if epoch is None else epoch
    if timestamp == LATEST_TIERED:
        return UNKNOWN, UNKNOWN, UNKNOWN
    if found is None or found[1] >= end:
        if is_behind:
            raise _not_available(partition)
        return UNKNOWN, UNKNOWN, UNKNOWN
    return found


def _not_available(partition: Partition) -> OffsetNotAvailableError:
    return OffsetNotAvailableError(
        f"the high watermark of {partition.topic}-{partition.partition} is not known until all in-sync replicas have "
        f"fetched from offset {partition.leader_epoch_start_offset}"
    )


def _offsets_before(partition: Partition, log: Log, timestamp: int, limit: int) -> list[int]:
    """Return for version 0 the base offsets of segments last modified by `timestamp`, newest first, at most `limit`."""
    end = Isolation.READ_UNCOMMITTED.visible_end(log)
    if timestamp == LATEST and partition.is_high_watermark_behind:
        raise _not_available(partition)
    if timestamp == EARLIEST:
        return [log.log_start_offset][:limit]
    bases = [max(segment.base_offset, log.log_start_offset) for segment in log.segments]
    if timestamp != LATEST:
        modified = [log.files.fs.modified_ms(segment.file.path) for segment in log.segments]
        bases = [base for base, modified_ms in zip(bases, modified, strict=True) if modified_ms <= timestamp]
        return bases[::-1][:limit]
    if not bases or bases[-1] < end:
        bases.append(end)
    return bases[::-1][:limit]


def _failed(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=code, timestamp=UNKNOWN, offset=UNKNOWN
    )
