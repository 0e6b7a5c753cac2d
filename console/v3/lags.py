"""The lag of a consumer group: how many records of each partition lie between its committed offset and the end.

Partitions without a committed offset have no lag, and those of topics that were deleted are omitted.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from client.admin.types import GroupMember
from client.consumer.offsets import LATEST
from client.topic_partition import TopicPartition
from console.rest.call import Call
from console.rest.errors import not_found
from console.rest.models import Answer, Listing, Metadata, Related
from console.rest.place import consumer_place, group_place, lag_place, partition_place
from console.v3.groups import described_group


class LagData(Answer):
    """The lag on one partition. The three names are empty if the partition is assigned to no member."""

    kind: Literal["KafkaConsumerLag"] = "KafkaConsumerLag"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int
    log_end_offset: int
    lag: int
    consumer_id: str
    instance_id: str | None
    client_id: str


class LagList(Listing[LagData]):
    """The lags on all partitions."""

    kind: Literal["KafkaConsumerLagList"] = "KafkaConsumerLagList"


class LagSummary(Answer):
    """The sum of the lags, and the partition with the largest one."""

    kind: Literal["KafkaConsumerGroupLagSummary"] = "KafkaConsumerGroupLagSummary"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_consumer: Related
    max_lag_partition: Related


class _Lag(NamedTuple):
    partition: TopicPartition
    committed: int
    end: int
    member: GroupMember

    @property
    def records(self) -> int:
        """A committed offset may lie beyond the end: records were deleted, or lost."""
        return max(self.end - self.committed, 0)


_NOBODY = GroupMember("", None, "", "", None)


async def list_lags(call: Call) -> LagList:
    """List the lags of a consumer group, by partition."""
    data = [_data(call, one) for one in await _lags(call)]
    return LagList(metadata=group_place(call.place, call.text("consumer_group_id")).listed("lags"), data=data)


async def get_lag(call: Call) -> LagData:
    """Describe the lag of a consumer group on one partition."""
    wanted = TopicPartition(call.topic_name, call.number("partition_id"))
    for one in await _lags(call):
        if one.partition == wanted:
            return _data(call, one)
    raise not_found(f"group {call.text('consumer_group_id')} has no committed offset of {wanted}")


async def get_lag_summary(call: Call) -> LagSummary:
    """Sum up the lags of a consumer group. 404 if it has no committed offsets."""
    group_id = call.text("consumer_group_id")
    lags = await _lags(call)
    if not lags:
        raise not_found(f"group {group_id} has no committed offsets")
    most = max(lags, key=lambda one: one.records)
    return LagSummary(
        metadata=group_place(call.place, group_id).only("lag-summary").metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group_id,
        max_lag_consumer_id=most.member.member_id,
        max_lag_instance_id=most.member.instance_id,
        max_lag_client_id=most.member.client_id,
        max_lag_topic_name=most.partition.topic,
        max_lag_partition_id=most.partition.partition,
        max_lag=most.records,
        total_lag=sum(one.records for one in lags),
        max_lag_consumer=consumer_place(call.place, group_id, most.member.member_id).link(),
        max_lag_partition=partition_place(call.place, *most.partition).link(),
    )


async def _lags(call: Call) -> list[_Lag]:
    """Return the lags of the group in the path, sorted by partition. Raises GroupIdNotFoundError."""
    group = await described_group(call)
    members = {partition: member for member in group.members for partition in member.assignment or ()}
    committed = await call.admin.list_group_offsets(group.group_id)
    topics = await call.topics()
    present = {
        partition: offset.offset
        for partition, offset in committed.items()
        if partition.topic in topics and partition.partition in topics[partition.topic].partitions
    }
    ends = await call.admin.list_offsets(dict.fromkeys(present, LATEST)) if present else {}
    return [
        _Lag(partition, offset, ends[partition].offset, members.get(partition, _NOBODY))
        for partition, offset in sorted(present.items())
    ]


def _data(call: Call, lag: _Lag) -> LagData:
    group_id = call.text("consumer_group_id")
    return LagData(
        metadata=lag_place(call.place, group_id, *lag.partition).metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group_id,
        topic_name=lag.partition.topic,
        partition_id=lag.partition.partition,
        current_offset=lag.committed,
        log_end_offset=lag.end,
        lag=lag.records,
        consumer_id=lag.member.member_id,
        instance_id=lag.member.instance_id,
        client_id=lag.member.client_id,
    )
