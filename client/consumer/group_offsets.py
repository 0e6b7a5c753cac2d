"""Committed offsets of a group: OffsetFetch and OffsetCommit, each one request to the group coordinator."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from client.errors import KafkaError, UnsupportedApiError, error_for
from client.topic_partition import TopicPartition
from client.wire.connection import Connection
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

_FIRST_FETCH_VERSION_WITH_ALL: Final = 2
_FIRST_FETCH_VERSION_WITH_STABLE: Final = 7
_FIRST_FETCH_VERSION_WITH_GROUPS: Final = 8
_FIRST_COMMIT_VERSION_WITH_INSTANCE: Final = 7


async def fetch_offsets(
    connection: Connection,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    member: ConsumerGroupMetadata | None = None,
    require_stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets of these partitions (None: of all), without partitions that have none.

    With `require_stable`, an offset that an open transaction may replace raises UnstableOffsetCommitError, which is
    retriable (KIP-447). Groups of the new protocol need `member`. Raises the broker's error, and UnsupportedApiError if
    the broker is too old.
    """
    version = connection.common_version(OffsetFetchRequest)
    if partitions is None and version < _FIRST_FETCH_VERSION_WITH_ALL:
        raise UnsupportedApiError("the broker is too old to return all offsets of a group")
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions or ():
        by_topic.setdefault(topic, []).append(number)
    stable = require_stable and version >= _FIRST_FETCH_VERSION_WITH_STABLE
    if version < _FIRST_FETCH_VERSION_WITH_GROUPS:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
        request = OffsetFetchRequest(
            group_id=group_id, topics=None if partitions is None else topics, require_stable=stable
        )
    else:
        named = [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None if partitions is None else named)
        if member is not None and member.generation_id >= 0:
            group.member_id, group.member_epoch = member.member_id, member.generation_id
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
    response = await connection.call(request, OffsetFetchResponse, version)
    return _offsets(group_id, response.groups if version >= _FIRST_FETCH_VERSION_WITH_GROUPS else [response])


async def fetch_offsets_of_groups(
    connection: Connection, group_ids: Iterable[str]
) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError]:
    """Return all committed offsets, or the error, of each group.

    One request (KIP-709); a broker older than Kafka 3.0 gets one for each group. Raises the errors of the connection.
    """
    version = connection.common_version(OffsetFetchRequest)
    found: dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError] = {}
    if version >= _FIRST_FETCH_VERSION_WITH_GROUPS:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=one, topics=None) for one in group_ids])
        for answer in (await connection.call(request, OffsetFetchResponse, version)).groups:
            try:
                found[answer.group_id] = _offsets(answer.group_id, [answer])
            except KafkaError as error:
                found[answer.group_id] = error
        return found
    for group_id in group_ids:
        try:
            found[group_id] = await fetch_offsets(connection, group_id)
        except KafkaError as error:
            if error.code is None:
                raise
            found[group_id] = error
    return found


def _offsets(group_id: str, answers: Iterable[Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    found = {}
    for answer in answers:
        if answer.error_code:
            raise error_for(answer.error_code, context=f"group {group_id}")
        for topic in answer.topics:
            for one in topic.partitions:
                name = TopicPartition(topic.name, one.partition_index)
                if one.error_code:
                    raise error_for(one.error_code, context=f"group {group_id}, {name}")
                if one.committed_offset >= 0:
                    found[name] = OffsetAndMetadata(
                        one.committed_offset, one.committed_leader_epoch, one.metadata or ""
                    )
    return found


async def commit_offsets(
    connection: Connection, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, int]:
    """Commit offsets and return the error code of each partition. Raises the errors of the connection."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, number), offset in offsets.items():
        entry = OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        topics.setdefault(topic, OffsetCommitRequestTopic(name=topic)).partitions.append(entry)
    request = OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        topics=list(topics.values()),
    )
    version = connection.common_version(OffsetCommitRequest)
    if version >= _FIRST_COMMIT_VERSION_WITH_INSTANCE:
        request.group_instance_id = group.group_instance_id
    response = await connection.call(request, OffsetCommitResponse, version)
    return {
        TopicPartition(topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }
