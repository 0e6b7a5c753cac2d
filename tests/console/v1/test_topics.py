"""Topics for the pages: all in one answer, and one with its partitions."""

import asyncio

import pytest

from client.admin.admin import Admin
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.mock_cluster import MockCluster
from support.rest import rest_api


@pytest.fixture
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        yield opened


async def test_topics_and_their_partitions(rest, admin):
    await admin.create_topic("listed", 2)
    found = {one["name"]: one for one in (await rest.get("/api/v1/topics"))["topics"]}
    summary = {
        "name": "listed",
        "is_internal": False,
        "partitions": 2,
        "replication_factor": 1,
        "under_replicated": 0,
        "offline": 0,
    }
    assert found["listed"] == summary
    topic = await rest.get("/api/v1/topics/listed")
    assert {key: topic[key] for key in summary} == summary
    assert [(one["partition"], one["leader"], one["replicas"], one["isr"]) for one in topic["states"]] == [
        (0, 0, [0], [0]),
        (1, 0, [0], [0]),
    ]


async def test_a_topic_that_many_requests_name_at_once_and_one_that_does_not_exist(rest, admin):
    await admin.create_topic("wanted", 1)
    paths = [f"/api/v1/topics/{name}" for name in ["wanted", "missing"] * 20]
    answers = await asyncio.gather(*(rest.ask("GET", path) for path in paths))
    assert [answer.status for answer in answers] == [200, 404] * 20
    assert answers[1].body["error_code"] == 40403
    assert "missing" in answers[1].body["message"]


async def test_topics_of_a_mock_cluster():
    cluster = MockCluster()
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        await producer.send("orders", b"first", partition=0)  # creates the topic
    async with rest_api(cluster.bootstrap) as rest:
        assert (await rest.get("/api/v1/topics/orders"))["partitions"] == 4
        assert [one["name"] for one in (await rest.get("/api/v1/topics"))["topics"]] == ["orders"]


async def test_statistics_of_all_topics(rest, admin, broker):
    await admin.create_topic("counted", 2)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(6):
            await producer.send("counted", b"value", partition=number % 2)
    await admin.delete_records({TopicPartition("counted", 0): 2})

    async def found():
        statistics = await rest.get("/api/v1/topic-statistics")
        return next((one for one in statistics["topics"] if one["name"] == "counted"), None)

    counted = await found()
    assert (counted["records"], counted["appended"]) == (4, 6)
    assert counted["size_bytes"] > 0
    only = await rest.get("/api/v1/topic-statistics?topic=counted")
    assert [one["name"] for one in only["topics"]] == ["counted"]
