"""Topics and their partitions over the REST API."""

import io

import pytest

from console.rest.bodies import MAX_BODY
from support.polling import until


async def until_partitions(rest, topic, number):
    async def has_them():
        answer = await rest.ask("GET", f"topics/{topic}")
        return answer.status == 200 and answer.body["partitions_count"] == number

    await until(has_them, f"{topic} has {number} partitions")


async def test_a_topic_is_created_grows_and_is_deleted(rest):
    made = await rest.ask("POST", "topics", {"topic_name": "orders", "partitions_count": 2, "replication_factor": 1})
    assert made.status == 201
    assert made.headers["Location"] == made.body["metadata"]["self"] == rest.full("topics/orders")
    assert made.body["metadata"]["resource_name"] == f"crn:///kafka={rest.cluster_id}/topic=orders"
    assert (made.body["partitions_count"], made.body["replication_factor"]) == (2, 1)
    await until_partitions(rest, "orders", 2)
    grown = await rest.ask("PATCH", "topics/orders", {"partitions_count": 3})
    assert (grown.status, grown.body["partitions_count"]) == (200, 3)
    await until_partitions(rest, "orders", 3)
    assert (await rest.ask("DELETE", "topics/orders")).status == 204

    async def is_gone():
        return (await rest.ask("GET", "topics/orders")).status == 404

    await until(is_gone, "the topic is gone")


async def test_counts_are_those_of_the_assignment_and_of_the_broker(rest):
    body = {"topic_name": "placed", "replicas_assignments": {"0": [0], "1": [0], "2": [0]}}
    assert (await rest.ask("POST", "topics", body)).body["partitions_count"] == 3
    assert (await rest.ask("POST", "topics", {"topic_name": "plain"})).body["partitions_count"] == 1


async def test_a_checked_topic_is_not_created(rest):
    body = {"topic_name": "checked", "validate_only": True}
    assert (await rest.ask("POST", "topics", body)).status == 200
    assert (await rest.ask("GET", "topics/checked")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "text"),
    [
        ("POST", "topics", {"topic_name": "a b"}, 400, 40002, "a b"),
        ("POST", "topics", {"topic_name": ""}, 400, 400, "topic_name"),
        ("POST", "topics", {"topic_name": "t", "partition_count": 1}, 400, 400, "partition_count"),
        ("POST", "topics", {"topic_name": "t", "partitions_count": 0}, 400, 400, "partitions_count"),
        ("POST", "topics", {"topic_name": "t", "replication_factor": 9}, 400, 40002, "INVALID_REPLICATION_FACTOR"),
        ("POST", "topics", {"topic_name": "t", "configs": [{"name": "no.such"}]}, 400, 40002, "no.such"),
        ("PATCH", "topics/kept", {"partitions_count": 1}, 400, 40002, "INVALID_PARTITIONS"),
        ("GET", "topics/unknown", None, 404, 40403, "unknown"),
        ("DELETE", "topics/unknown", None, 404, 40403, "unknown"),
        ("GET", "topics/unknown/partitions", None, 404, 40403, "unknown"),
        ("GET", "topics/kept/partitions/9", None, 404, 40402, "no partition 9"),
        ("GET", "topics/kept/partitions/x", None, 404, 404, "must be a number"),
        ("GET", "topics/kept/partitions/0/replicas/7", None, 404, 404, "broker 7"),
        ("GET", "topics/kept/partitions/0/offset?offset_type=middle", None, 400, 400, "offset_type"),
        ("GET", "brokers/7", None, 404, 404, "no live broker 7"),
        ("GET", "nothing", None, 404, 404, "Not Found"),
        ("PUT", "topics", {}, 405, 405, "Method Not Allowed"),
    ],
)
async def test_errors(rest, method, path, body, status, code, text):
    await rest.ask("POST", "topics", {"topic_name": "kept", "partitions_count": 2})
    await until_partitions(rest, "kept", 2)
    answer = await rest.ask(method, path, body)
    assert (answer.status, answer.body["error_code"]) == (status, code), answer
    assert text in answer.body["message"]


async def test_bodies_that_are_no_json(rest):
    url = rest.full("topics")
    for data, content_type, status in (
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"topic_name=t", "application/x-www-form-urlencoded", 415),
        (io.BytesIO(b'"' + b"x" * MAX_BODY + b'"'), "application/json", 413),
    ):
        async with rest.http.post(url, data=data, headers={"Content-Type": content_type}) as response:
            assert response.status == status
            assert (await response.json())["error_code"] == status


async def test_links_lead_from_the_cluster_to_a_replica(rest):
    await rest.ask("POST", "topics", {"topic_name": "linked"})
    await until_partitions(rest, "linked", 1)

    async def follow(url):
        return await rest.get(url.removeprefix(rest.url))

    (cluster,) = (await rest.get("/v3/clusters"))["data"]
    assert (await follow(cluster["controller"]["related"]))["broker_id"] == 0
    topics = await follow(cluster["topics"]["related"])
    (topic,) = [one for one in topics["data"] if one["topic_name"] == "linked"]
    (partition,) = (await follow(topic["partitions"]["related"]))["data"]
    replica = await follow(partition["leader"]["related"])
    assert (replica["is_leader"], replica["is_in_sync"], replica["broker_id"]) == (True, True, 0)
    broker = await follow(replica["broker"]["related"])
    replicas = await follow(broker["partition_replicas"]["related"])
    assert replica in replicas["data"]
    assert await follow(partition["metadata"]["self"]) == partition
    offsets = await rest.get("topics/linked/partitions/0/offset")
    assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 0)
