"""Groups for the console's pages: topics with records, a group with two members, and one without."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from client.admin.admin import Admin
from client.admin.types import NewTopic
from client.consumer.consumer import Consumer
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.polling import until
from support.quick_groups import quick_consumer

TOPIC = "payments"
PARTITIONS = 6
RECORDS = 20
"""In each partition."""
BUSY = "billing"
"""A group of the new protocol with two members, which has read a part."""
IDLE = "audit"
"""A group without members."""


@contextlib.asynccontextmanager
async def groups_to_look_at(servers: str, admin: Admin) -> AsyncIterator[list[Consumer]]:
    """Create the topic, its records and the groups; yield the members of the busy one."""
    await admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
    async with Producer(bootstrap_servers=servers) as producer:
        for partition in range(PARTITIONS):
            for number in range(RECORDS):
                await producer.send(TOPIC, b"%d" % number, partition=partition)
    offsets = {TopicPartition(TOPIC, number): OffsetAndMetadata(5 + number) for number in range(PARTITIONS)}

    async def are_committed() -> bool:
        return not any((await admin.alter_group_offsets(IDLE, offsets)).values())

    await until(are_committed, "the idle group has offsets")
    async with contextlib.AsyncExitStack() as stack:
        members = [
            await stack.enter_async_context(
                quick_consumer(servers, TOPIC, group_id=BUSY, client_id=f"worker-{number}", group_protocol="consumer")
            )
            for number in (1, 2)
        ]
        for member in members:
            await until(lambda member=member: len(member.assignment()) == PARTITIONS // 2, "partitions are shared")
        for member in members:
            await member.commit({partition: partition.partition * 2 for partition in member.assignment()})
        yield members
