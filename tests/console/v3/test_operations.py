"""Every operation of the table answers as recorded: keys, types and status codes (rest-v3.jsonl)."""

import asyncio
import contextlib
from urllib.parse import urlencode

import pytest

from broker.settings.checks import ACL_AUTHORIZER
from client.consumer.consumer import Consumer
from client.topic_partition import TopicPartition
from console.v3.table import OPERATIONS
from ottla import testing
from support.polling import until
from support.rest import differences, recorded, rest_api

SERVED = [f"{one.method} {one.path}" for one in OPERATIONS]


def test_every_recorded_operation_is_served_once():
    assert sorted(SERVED) == sorted(recorded())


CLUSTER = "/clusters/{cluster_id}"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": ACL_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
PARAMETERS = {
    "broker_id": "0",
    "topic_name": "orders",
    "partition_id": "0",
    "consumer_group_id": "billing",
    "consumer_id": "unknown",
    "name": "retention.ms",
}
NEW_TOPIC = {"topic_name": "new", "partitions_count": 2, "replication_factor": 1}
DYNAMIC = {"name": "log.cleaner.threads"}
ALTER = {"data": [{"name": "log.cleaner.threads", "value": "2"}]}
RESET = {"name": "cleanup.policy", "operation": "DELETE"}
ACL = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
SELECTED = "?" + urlencode(ACL)
RECORD = {"partition_id": 0, "key": {"type": "STRING", "data": "k"}, "value": {"type": "JSON", "data": {"a": 1}}}
REQUESTS = {
    "POST /topics/{topic_name}/records": [({}, RECORD, 200)],
    "POST /topics/{topic_name}/records:batch": [
        ({}, {"entries": [RECORD | {"id": "1"}, RECORD | {"id": "2", "partition_id": 9}]}, 207)
    ],
    "POST /acls": [({}, ACL, 201)],
    "POST /acls:batch": [({}, {"data": [ACL, ACL | {"operation": "WRITE"}]}, 201)],
    "DELETE /acls": [({"query": SELECTED}, None, 200)],
    "POST /topics/{topic_name}/configs:alter": [
        (
            {},
            {"data": [{"name": "retention.ms", "value": "60000"}, RESET]},
            204,
        )
    ],
    "PUT /topics/{topic_name}/configs/{name}": [({}, {"value": "1000"}, 204)],
    "DELETE /topics/{topic_name}/configs/{name}": [({}, None, 204)],
    "POST /brokers/{broker_id}/configs:alter": [({}, ALTER, 204)],
    "GET /brokers/{broker_id}/configs/{name}": [(DYNAMIC, None, 200)],
    "PUT /brokers/{broker_id}/configs/{name}": [(DYNAMIC, {"value": "3"}, 204)],
    "DELETE /brokers/{broker_id}/configs/{name}": [(DYNAMIC, None, 204)],
    "POST /broker-configs:alter": [({}, ALTER, 204)],
    "GET /broker-configs/{name}": [({"name": "num.io.threads"}, None, 200)],
    "PUT /broker-configs/{name}": [(DYNAMIC, {"value": "3"}, 204)],
    "DELETE /broker-configs/{name}": [(DYNAMIC, None, 204)],
    "POST /topics": [({}, NEW_TOPIC | {"validate_only": True}, 200), ({}, NEW_TOPIC, 201)],
    "PATCH /topics/{topic_name}": [({"topic_name": "grows"}, {"partitions_count": 3}, 200)],
    "DELETE /topics/{topic_name}": [({"topic_name": "goes"}, None, 204)],
}
"""What is sent: parameters of the path that differ from PARAMETERS, the body, and the expected status."""
NEEDS_MORE = {f"GET {CLUSTER}/topics/{{topic_name}}/partitions/{{partition_id}}/reassignment": "test_reassignments.py"}
"""Operations whose success another test shows."""


@pytest.fixture(scope="module")
def broker():
    with testing.broker(SETTINGS) as running:
        asyncio.run(fill(running.bootstrap_servers))
        yield running


@contextlib.asynccontextmanager
async def a_member(bootstrap_servers, rest):
    """A member of the group "billing" that has a partition and a committed offset of it; its id."""
    async with Consumer("orders", bootstrap_servers=bootstrap_servers, group_id="billing") as consumer:
        partition = TopicPartition("orders", 0)
        await until(lambda: partition in consumer.assignment(), "the partition is assigned")
        await consumer.commit({partition: 0})
        (member,) = (await rest.get("consumer-groups/billing/consumers"))["data"]
        yield member["consumer_id"]


async def fill(bootstrap_servers):
    async with rest_api(bootstrap_servers) as api:
        for name in ("orders", "grows", "goes"):
            answer = await api.ask("POST", "topics", {"topic_name": name, "partitions_count": 2})
            assert answer.status == 201, answer
        default = await api.ask("PUT", "broker-configs/num.io.threads", {"value": "4"})
        assert default.status == 204, default


def requests_of(operation):
    short = operation.replace(CLUSTER, "", 1)
    return REQUESTS.get(short, [({}, None, 200)])


@pytest.mark.parametrize("operation", SERVED)
async def test_the_answer_has_the_recorded_shape(broker, rest, operation):
    if "{consumer_group_id}" in operation:
        async with a_member(broker.bootstrap_servers, rest) as consumer_id:
            await check_answers(rest, operation, PARAMETERS | {"consumer_id": consumer_id})
    else:
        await check_answers(rest, operation, PARAMETERS)


async def check_answers(rest, operation, parameters):
    known = recorded()[operation]
    method, _, path = operation.partition(" ")
    for others, body, status in requests_of(operation):
        values = parameters | {"cluster_id": rest.cluster_id} | others
        answer = await rest.ask(method, "/v3" + path.format(**values) + values.get("query", ""), body)
        if operation in NEEDS_MORE:
            assert answer.status == 404
            assert differences({"error_code": "integer", "message": "string"}, answer.body) == []
            return
        assert answer.status == status, answer
        assert str(status) in known["responses"]
        shape = known["responses"][str(status)].get("application/json")
        assert (answer.body is None) == (shape is None)
        assert shape is None or differences(shape, answer.body) == []


@pytest.mark.parametrize("operation", SERVED)
async def test_errors_have_the_recorded_shape(rest, operation):
    """Every operation below a cluster refuses another cluster."""
    method, _, path = operation.partition(" ")
    if "{cluster_id}" in path:
        body = requests_of(operation)[0][1]
        query = SELECTED if method == "DELETE" and path.endswith("/acls") else ""
        answer = await rest.ask(method, "/v3" + path.format(**PARAMETERS | {"cluster_id": "other"}) + query, body)
        assert answer.status == 404
        assert differences({"error_code": "integer", "message": "string"}, answer.body) == []


def test_differences_are_found():
    shape = {"a": "string A|B", "b?": "integer:int32 null", "c": [{"d": "boolean"}]}
    assert differences(shape, {"a": "A", "b": None, "c": [{"d": True}]}) == []
    assert differences(shape, {"a": "C", "b": "1", "c": [{"d": 1}], "e": 1}) == [
        "body.a: 'C' is not string A|B",
        "body.b: '1' is not integer:int32 null",
        "body.c[0].d: 1 is not boolean",
        "body: e is not in the recorded shape",
    ]
    assert differences(shape, {"a": "A"}) == ["body: no c"]
