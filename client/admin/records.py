"""The part of the admin client that looks at records: the batches of a partition at any offset, without a position.

A `Reader` follows partitions and shows what consumers see. Here one Fetch is one answer, with all that the log has
there: control batches, and batches of aborted transactions with the list that tells them apart (KIP-98).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from client.admin.base import AdminBase
from client.errors import RequestTimeoutError, error_for
from client.topic_partition import TopicPartition
from client.wire.metadata import ZERO_ID
from protocol.error_codes import ErrorCode
from protocol.message_set import LegacyMessage, iter_mixed
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.record_batch import RecordBatch

_MIN_VERSION = 4
_LAST_VERSION_WITH_NAMES = 12
_SESSIONLESS_EPOCH = -1
_LEAST_WAIT_S = 0.05


class LogPiece(NamedTuple):
    """Consecutive batches of a partition. The first may begin before the offset that was asked for."""

    batches: list[RecordBatch | LegacyMessage]
    aborted: list[tuple[int, int]]
    """(producer id, first offset) of the aborted transactions in the batches, if only committed ones were asked for."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class RecordAdmin(AdminBase):
    """Fetch."""

    async def read_log(
        self, partition: TopicPartition, offset: int, *, max_bytes: int = 1024 * 1024, read_committed: bool = False
    ) -> LogPiece:
        """Return the batches from an offset on; none if it is the end. Does not wait for new records.

        If a quota throttles this client, it waits and asks again.

        max_bytes: a single larger batch is returned nevertheless. read_committed: end at the last stable offset.
        Raises OffsetOutOfRangeError, CorruptRecordError, RequestTimeoutError, and other errors of the leader.
        """

        async def attempt() -> LogPiece | float:
            return await self._read_log(partition, offset, max_bytes, read_committed)

        now_s = asyncio.get_running_loop().time
        end_s = now_s() + self._timeout_s
        while True:
            found = await self._cluster.retry(attempt, timeout_s=end_s - now_s())
            if isinstance(found, LogPiece):
                return found
            if now_s() + found > end_s:
                raise RequestTimeoutError(f"{partition}: a quota throttles this client for {found:g} s")
            await asyncio.sleep(found)

    async def _read_log(
        self, partition: TopicPartition, offset: int, max_bytes: int, read_committed: bool
    ) -> LogPiece | float:
        """Return what one Fetch finds, or the seconds to wait if the broker throttles this client."""
        [leader] = await self._by_leader([partition])
        connection = await self._cluster.connection(leader)
        known = self._cluster.metadata.topics[partition.topic]
        last = None if known.topic_id != ZERO_ID else _LAST_VERSION_WITH_NAMES
        version = connection.common_version(FetchRequest, last)
        if version < _MIN_VERSION:
            raise error_for(ErrorCode.UNSUPPORTED_VERSION, f"Fetch version {_MIN_VERSION} is needed")
        asked = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=known.partitions[partition.partition].leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            isolation_level=int(read_committed),
            session_epoch=_SESSIONLESS_EPOCH,
            topics=[FetchTopic(topic=partition.topic, topic_id=known.topic_id, partitions=[asked])],
        )
        response = await connection.call(request, FetchResponse, version)
        if response.error_code:
            raise error_for(response.error_code, context=f"fetch from {connection.host}:{connection.port}")
        answers = [data for topic in response.responses for data in topic.partitions]
        if not answers:  # with a quota exceeded, no partition is answered
            return max(response.throttle_time_ms / 1000, _LEAST_WAIT_S)
        return _piece(answers[0], partition)


def _piece(data: PartitionData, partition: TopicPartition) -> LogPiece:
    if data.error_code:
        raise error_for(data.error_code, context=str(partition))
    records = data.records
    assert records is None or isinstance(records, bytes | bytearray | memoryview), "a response is in memory"
    return LogPiece(
        list(iter_mixed(records, partial=True)) if records else [],
        [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()],
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
    )
