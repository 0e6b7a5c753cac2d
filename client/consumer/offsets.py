"""Offsets by timestamp: ListOffsets to the leader of each partition, with retries."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from client.errors import KafkaError, error_for
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
# After a topic is created, its leaders learn of it later than the controller.
UNKNOWN_PATIENCE_S: Final = 1.0
_MAX_TIMESTAMP_VERSION: Final = 7


class OffsetAndTimestamp(NamedTuple):
    """An offset and the timestamp of its record in ms; both -1 if all records are older than the requested time."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_s: float,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the offset of the first record at or after a time, for each partition.

    A time is in ms since the epoch, or LATEST (the high watermark; with `read_committed` the last stable offset),
    EARLIEST (the log start offset) or MAX_TIMESTAMP (the record with the greatest timestamp). Retriable errors are
    retried for `timeout_s`. Raises the broker's error.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def ask_the_rest() -> None:
        for topic in {partition.topic for partition in wanted if partition not in found}:
            await cluster.topic(topic, timeout_s=timeout_s, tolerate_unknown_s=0)
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, timestamp in wanted.items():
            if partition in found:
                continue
            if cluster.metadata.partition(partition) is None:
                topic, number = partition
                raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {number}", context=topic)
            leader = cluster.metadata.leader(partition)
            if leader is None:
                raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, context=str(partition))
            by_leader.setdefault(leader, {})[partition] = timestamp
        asked = [_ask(cluster, leader, part, read_committed, found) for leader, part in by_leader.items()]
        errors = [error for error in await asyncio.gather(*asked, return_exceptions=True) if error is not None]
        for error in errors:
            if not isinstance(error, KafkaError) or not error.retriable:
                raise error
        if errors:
            raise errors[0]

    await cluster.retry(ask_the_rest, timeout_s=timeout_s, tolerate_unknown_s=min(timeout_s, UNKNOWN_PATIENCE_S))
    return found


async def _ask(
    cluster: Cluster,
    leader: int,
    wanted: Mapping[TopicPartition, int],
    read_committed: bool,
    found: dict[TopicPartition, OffsetAndTimestamp],
) -> None:
    connection = await cluster.connection(leader)
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for name, timestamp in wanted.items():
        known = cluster.metadata.partition(name)
        topics.setdefault(name.topic, []).append(
            ListOffsetsPartition(
                partition_index=name.partition,
                current_leader_epoch=-1 if known is None else known.leader_epoch,
                timestamp=timestamp,
            )
        )
    version = connection.common_version(ListOffsetsRequest)
    if version < _MAX_TIMESTAMP_VERSION and MAX_TIMESTAMP in wanted.values():
        raise error_for(ErrorCode.UNSUPPORTED_VERSION, "the broker is too old to find the greatest timestamp")
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    response = await connection.call(request, ListOffsetsResponse, version)
    error: KafkaError | None = None
    for answer in response.topics:
        for partition in answer.partitions:
            name = TopicPartition(answer.name, partition.partition_index)
            if partition.error_code == ErrorCode.NONE:
                found[name] = OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch)
            elif error is None or error.retriable:
                error = error_for(partition.error_code, context=str(name))
    if error is not None:
        raise error
