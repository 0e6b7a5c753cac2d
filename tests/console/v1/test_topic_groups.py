"""The groups that read a topic."""

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from ottla import Consumer, testing
from support.deadlines import DEADLINE_S
from support.polling import until
from support.rest import rest_api

PATIENT = {"zookeeper.session.timeout.ms": str(int(2000 * DEADLINE_S)), "offsets.topic.num.partitions": "6"}
"""Every broker is the coordinator of some groups, and one that stands still stays a member."""


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


async def test_groups_of_the_brokers_that_answer_are_listed_and_the_other_is_named():
    names = [f"group-{number}" for number in range(9)]
    with testing.cluster(3, PATIENT) as cluster:
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.create_topic("orders", 1, 3)

            async def are_committed():
                at = {TopicPartition("orders", 0): OffsetAndMetadata(0)}
                done = [await admin.alter_group_offsets(name, at) for name in names]
                return not any(error for one in done for error in one.values())

            await until(are_committed, "the groups have offsets")
            coordinators = {one.group_id: one.coordinator for one in await admin.list_groups()}
        paused = coordinators[names[0]]
        asked = min(set(cluster.brokers) - {paused})
        async with rest_api(cluster.brokers[asked].bootstrap_servers) as rest:
            whole = await rest.get("/api/v1/topics/orders/groups")
            assert ([one["group_id"] for one in whole["groups"]], whole["problems"]) == (names, [])
            cluster.pause_broker(paused)
            try:
                found = await rest.get("/api/v1/topics/orders/groups")
                overview = await rest.get("/api/v1/overview")
            finally:
                cluster.resume_broker(paused)
        others = [name for name in names if coordinators[name] != paused]
        assert others
        assert [one["group_id"] for one in found["groups"]] == others
        assert {one["state"] for one in found["groups"]} == {"Empty"}
        assert found["problems"] == [f"Broker {paused} did not answer within 3 s."]
        assert (overview["groups"], overview["has_all_groups"]) == (len(others), False)
        assert f"Broker {paused} did not answer within 3 s." in overview["problems"]
