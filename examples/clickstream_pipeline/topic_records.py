"""All records that a topic has now."""

from ottla import ConsumerRecord, Reader, TopicPartition


async def read_topic(bootstrap_servers: str, topic: str) -> list[ConsumerRecord]:
    """The committed records of a topic, from the first to the last of this moment."""
    async with Reader(bootstrap_servers=bootstrap_servers, isolation_level="read_committed") as reader:
        partitions = [TopicPartition(topic, number) for number in await reader.partitions_for(topic)]
        ends = await reader.end_offsets(partitions)
        reader.assign(dict.fromkeys(partitions, "beginning"))
        records: list[ConsumerRecord] = []
        while any(not reader.is_known(one) or reader.position(one) < ends[one] for one in partitions):
            records += await reader.fetch(timeout_ms=500)
    return records
