"""Partitions for the pages: offsets and sizes, deleted records."""

import time

import pytest

from client.admin.admin import Admin
from client.producer.producer import Producer
from ottla import testing
from support.polling import until
from support.rest import rest_api

BEGIN_MS = 1000 * int(time.time()) - 20_000


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(2) as running:
        yield running


@pytest.fixture
async def rest(cluster):
    async with rest_api(cluster.bootstrap_servers) as running:
        yield running


@pytest.fixture
async def admin(cluster):
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as opened:
        yield opened


async def filled(cluster, admin, name, **options):
    """A topic with ten records in partition 0, a second apart"""
    await admin.create_topic(name, **options)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(10):
            await producer.send(name, b"value", partition=0, timestamp_ms=BEGIN_MS + 1000 * number)


async def brokers(admin):
    return [broker.node_id for broker in (await admin.describe_cluster()).brokers]


async def test_offsets_and_the_sizes_of_all_replicas(cluster, rest, admin):
    first, second = await brokers(admin)
    await filled(cluster, admin, "sized", assignment={0: [first, second], 1: [second, first]})

    async def logs_of_both():
        found = await rest.get("/api/v1/topics/sized/partitions")
        full, empty = found["partitions"]
        sizes = [{log["broker_id"]: log["size_bytes"] for log in one["logs"]} for one in (full, empty)]
        is_copied = sizes[0].get(first, 0) == sizes[0].get(second) > 0 and sizes[1] == {first: 0, second: 0}
        return found if is_copied and full["end"] == 10 else None

    found = await until(logs_of_both, "both brokers have the records")
    assert found["problems"] == []
    full, empty = found["partitions"]
    assert (full["partition"], full["start"], full["end"]) == (0, 0, 10)
    assert (empty["partition"], empty["start"], empty["end"]) == (1, 0, 0)


async def test_records_are_deleted_before_the_offset_of_a_time(cluster, rest, admin):
    await filled(cluster, admin, "short", partitions=1, replication_factor=1)
    at = await rest.get(f"/api/v1/topics/short/offsets?timestamp={BEGIN_MS + 4000}")
    assert at == {"partitions": [{"partition": 0, "offset": 4}], "problems": []}
    after = await rest.get(f"/api/v1/topics/short/offsets?timestamp={BEGIN_MS + 10_000}")
    assert after["partitions"] == [{"partition": 0, "offset": None}]
    answer = await rest.ask("POST", "/api/v1/topics/short/records:delete", {"before": {"0": 4}})
    assert (answer.status, answer.body) == (200, {"partitions": [{"partition": 0, "offset": 4}]})
    assert (await rest.get("/api/v1/topics/short/partitions"))["partitions"][0]["start"] == 4
    answer = await rest.ask("POST", "/api/v1/topics/short/records:delete", {"before": {"0": 11}})
    assert answer.status >= 400
    assert (await rest.ask("GET", "/api/v1/topics/short/offsets?timestamp=now")).status == 400
