"""Snapshots of metadata: what a new answer replaces."""

from collections.abc import Collection

import pytest

from client.topic_partition import TopicPartition
from client.wire.metadata import Metadata
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ONE_ID, OTHER_ID, NO_ID = b"1" * 16, b"2" * 16, bytes(16)


def answer(*leaders: tuple[int, int], topic_id: bytes = ONE_ID, brokers: Collection[int] = ()) -> MetadataResponse:
    """Of one topic: (leader, leader epoch) of each partition."""
    partitions = [
        MetadataResponsePartition(partition_index=number, leader_id=leader, leader_epoch=epoch)
        for number, (leader, epoch) in enumerate(leaders)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=one, host="h", port=1) for one in brokers],
        topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=partitions)],
    )


def leaders(metadata: Metadata) -> list[int]:
    return [partition.leader for partition in metadata.topics["t"].partitions.values()]


@pytest.mark.parametrize("topic_id", [ONE_ID, NO_ID])
def test_metadata_with_an_older_leader_epoch_is_ignored(topic_id):
    known = Metadata().updated(answer((1, 5), (2, 5), topic_id=topic_id))
    after = known.updated(answer((3, 4), (3, 5), topic_id=topic_id))
    assert leaders(after) == [1, 3]
    partition = after.partition(TopicPartition("t", 0))
    assert partition is not None
    assert partition.leader_epoch == 5


def test_a_newer_leader_epoch_and_new_partitions_are_adopted():
    known = Metadata().updated(answer((1, 5)))
    assert leaders(known.updated(answer((2, 6), (3, 0)))) == [2, 3]


def test_a_leader_that_another_answer_names():
    known = Metadata().updated(answer((1, 5), (2, 5), brokers=(1, 2)))
    first = TopicPartition("t", 0)
    assert leaders(known.with_leader(first, ONE_ID, 2, 6)) == [2, 2]
    for topic_id, leader, epoch in ((OTHER_ID, 2, 6), (ONE_ID, 3, 6), (ONE_ID, 2, 5)):
        assert known.with_leader(first, topic_id, leader, epoch) is known
    assert known.with_leader(TopicPartition("t", 7), ONE_ID, 2, 6) is known


def test_a_recreated_topic_resets_the_leader_epochs():
    known = Metadata().updated(answer((1, 5), (1, 5)))
    assert leaders(known.updated(answer((2, 0), topic_id=OTHER_ID))) == [2]
