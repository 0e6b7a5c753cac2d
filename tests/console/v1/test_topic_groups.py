"""The groups that read a topic."""

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from ottla import Consumer, testing
from support.polling import until
from support.rest import rest_api


async def test_a_group_without_members_one_with_a_member_and_one_that_reads_another_topic():
    with testing.broker() as broker:
        servers = broker.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin, rest_api(servers) as rest:
            await admin.create_topic("orders", 2)
            await admin.create_topic("others", 1)
            async with Producer(bootstrap_servers=servers) as producer:
                for _ in range(10):
                    await producer.send("orders", b"value", partition=1)
            await admin.alter_group_offsets("billing", {TopicPartition("orders", 1): OffsetAndMetadata(4)})
            await admin.alter_group_offsets("elsewhere", {TopicPartition("others", 0): OffsetAndMetadata(0)})
            async with Consumer(bootstrap_servers=servers, group_id="reading", client_id="reader") as consumer:
                await consumer.subscribe(["orders"])

                async def with_member():
                    await consumer.getmany(timeout_ms=10)
                    found = await rest.get("/api/v1/topics/orders/groups")
                    return found if [one["members"] for one in found["groups"]] == [0, 1] else None

                found = await until(with_member, "the member has its partitions")
            assert found["problems"] == []
            billing, reading = found["groups"]
            assert (billing["group_id"], billing["state"], billing["lag"]) == ("billing", "Empty", 6)
            only = {"partition": 1, "committed": 4, "lag": 6, "client_id": None, "host": None}
            assert billing["partitions"] == [only]
            assert reading["group_id"] == "reading"
            assert [(one["partition"], one["client_id"]) for one in reading["partitions"]] == [
                (0, "reader"),
                (1, "reader"),
            ]
