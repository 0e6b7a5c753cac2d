"""Partitions of a topic that are read at once, for a page that may be closed at any moment."""

from client.consumer.offsets import OffsetAndTimestamp
from client.wire.metadata import PartitionMetadata, TopicMetadata
from console.messages.topic_log import TopicLog
from support.cancelling import cancel_at_each_step

PARTITIONS = range(3)


class EmptyLogs:
    """An admin client for a topic without records; each partition has its own leader."""

    async def list_offsets(self, wanted, *, read_committed):
        return {partition: OffsetAndTimestamp(0, -1, -1) for partition in wanted}


def topic_log():
    partitions = {one: PartitionMetadata(one, one, 0, (one,), (one,), (), 0) for one in PARTITIONS}
    return TopicLog(EmptyLogs(), TopicMetadata("orders", bytes(16), False, 0, partitions), PARTITIONS, shows_all=False)


async def read_a_page():
    log = topic_log()
    await log.open()
    await log.older({}, 10)
    return log


async def test_a_topic_without_records():
    log = await read_a_page()
    assert log.ranges == dict.fromkeys(PARTITIONS, (0, 0))
    assert not log.errors


async def test_a_page_that_is_closed_at_any_moment_leaves_no_question_behind():
    """A coroutine that is never awaited would be a warning, which fails a test."""
    await cancel_at_each_step(read_a_page)
