"""The overview over the REST API."""

from client.producer.producer import Producer
from ottla import testing
from support.mock_cluster import MockCluster
from support.polling import until
from support.rest import rest_api

PATH = "/api/v1/overview"


async def test_an_empty_broker_and_a_topic():
    with testing.broker() as broker:
        async with rest_api(broker.bootstrap_servers) as rest:
            empty = await rest.get(PATH)
            assert (empty["topics"], empty["partitions"], empty["problems"]) == (0, 0, [])
            assert empty["bootstrap_servers"] == broker.bootstrap_servers
            assert (empty["offline"], empty["under_replicated"]) == ({"count": 0, "partitions": []},) * 2
            assert (empty["traffic"], empty["lagging_groups"]) == (None, [])
            (disk,) = empty["disks"]
            assert disk["total_bytes"] >= disk["usable_bytes"] > 0 == disk["failed_log_dirs"]
            assert (await rest.ask("POST", "topics", {"topic_name": "orders", "partitions_count": 2})).status == 201

            async def seen():
                found = await rest.get(PATH)
                return found if found["topics"] == 1 else None

            found = await until(seen, "the overview shows the topic")
            assert found["partitions"] == 2
            assert [(one["topic"], one["text"]) for one in found["changes"]] == [
                ("orders", "created with 2 partitions")
            ]


async def test_a_mock_cluster():
    cluster = MockCluster()
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        await producer.send("orders", b"first", partition=0)  # makes the topic
    async with rest_api(cluster.bootstrap) as rest:
        found = await rest.get(PATH)
        assert (found["topics"], found["partitions"], len(found["disks"])) == (1, 4, 3)
