"""Elections and reassignments over the REST API."""

import asyncio

import pytest

from client.admin.admin import Admin
from client.admin.types import Reassignment
from console.rest.errors import RestError
from console.v1.reassignments import plan, progress
from ottla import testing
from support.deadlines import DEADLINE_S
from support.polling import until
from support.rest import rest_api

PATH = "/api/v1/reassignments"


def test_a_plan_keeps_what_can_stay_and_spreads_the_rest():
    assert plan({0: (1, 2), 1: (2, 1)}, [1, 2, 3], None) == {}
    assert plan({0: (1, 2), 1: (2, 1)}, [2, 3], None) == {0: [2, 3], 1: [2, 3]}
    spread = plan(dict.fromkeys(range(6), (1,)), [2, 3, 4], None)
    assert sorted(target[0] for target in spread.values()) == [2, 2, 3, 3, 4, 4]
    assert plan({0: (1, 2, 3)}, [1, 2, 3], 2) == {0: [1, 2]}
    assert plan({0: (1,)}, [1, 2], 2) == {0: [1, 2]}
    with pytest.raises(RestError, match="2 replicas need 2 brokers, not 1"):
        plan({0: (1, 2)}, [1], None)


def test_the_progress_of_a_move():
    move = Reassignment((1, 2, 3), (2, 3), (1,))
    assert progress(move, 1, {1: 100, 2: 100, 3: 25}) == 0.25
    assert progress(move, 1, {1: 100, 2: 150}) == 0.0
    assert progress(move, 1, {2: 100}) is None
    assert progress(move, 1, {1: 0}) == 1.0


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(2, {"zookeeper.session.timeout.ms": str(int(2000 * DEADLINE_S))}) as running:
        yield running


async def test_a_move_is_planned_started_and_cancelled(cluster):
    async with rest_api(cluster.bootstrap_servers) as rest:
        brokers = (await rest.get("/api/v1/brokers"))["brokers"]
        (here,) = (one["broker_id"] for one in brokers if one["is_controller"])
        (there,) = (one["broker_id"] for one in brokers if not one["is_controller"])
        body = {"topic_name": "moved", "replicas_assignments": {"0": [here]}}
        assert (await rest.ask("POST", "topics", body)).status == 201
        wanted = {"topic": "moved", "brokers": [there]}

        async def planned():
            answer = await rest.ask("POST", PATH, wanted | {"dry_run": True})
            return answer.body if answer.status == 200 else None

        assert (await until(planned, "the topic is known"))["moves"] == [
            {"topic": "moved", "partition": 0, "replicas": [here], "target": [there]}
        ]
        assert (await rest.get(PATH))["moves"] == []
        cluster.kill_broker(there)
        try:
            started = await rest.ask("POST", PATH, wanted)
            assert (started.status, started.body["failed"]) == (200, [])

            async def listed():
                return (await rest.get(PATH))["moves"]

            (move,) = await until(listed, "the move is listed")
            assert (move["adding"], move["removing"], move["target"]) == ([there], [here], [there])
            cancelled = await rest.ask("POST", f"{PATH}:cancel", {"partitions": [{"topic": "moved", "partition": 0}]})
            assert cancelled.body == {"done": 1, "failed": []}

            async def over():
                return not (await rest.get(PATH))["moves"]

            await until(over, "the move is over")
        finally:
            cluster.start_broker(there)
        again = await rest.ask("POST", f"{PATH}:cancel", {"partitions": [{"topic": "moved", "partition": 0}]})
        assert again.body["done"] == 0
        assert "NO_REASSIGNMENT_IN_PROGRESS" in again.body["failed"][0]["error"]


async def test_what_is_not_there_is_refused(cluster):
    async with rest_api(cluster.bootstrap_servers) as rest:
        await asyncio.to_thread(cluster.create_topic, "one")
        for wrong, text in (({"brokers": [99]}, "no live broker 99"), ({"brokers": [1], "partitions": [7]}, "no ")):
            answer = await rest.ask("POST", PATH, {"topic": "one"} | wrong)
            assert (answer.status, text in answer.body["message"]) == (400, True)
        assert (await rest.ask("POST", PATH, {"topic": "nowhere", "brokers": [1]})).status == 404


async def test_elections(cluster):
    async with rest_api(cluster.bootstrap_servers) as rest:
        assert (await rest.ask("POST", "/api/v1/elections", {})).body["failed"] == []
        body = {"type": "unclean", "partitions": [{"topic": "nowhere", "partition": 0}]}
        (failed,) = (await rest.ask("POST", "/api/v1/elections", body)).body["failed"]
        assert "UNKNOWN_TOPIC_OR_PARTITION" in failed["error"]


async def test_partitions_get_exactly_the_named_replicas(cluster):
    async with rest_api(cluster.bootstrap_servers) as rest, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        first, second = [broker.node_id for broker in (await admin.describe_cluster()).brokers][:2]
        await admin.create_topic("assigned", assignment={0: [first]})
        moves = [
            {"topic": "assigned", "partition": 0, "replicas": [second, first]},
            {"topic": "assigned", "partition": 1, "replicas": [first]},
        ]
        answer = await rest.ask("POST", "/api/v1/reassignments:assign", {"moves": moves})
        assert answer.body["done"] == 1
        assert [(one["topic"], one["partition"]) for one in answer.body["failed"]] == [("assigned", 1)]

        async def has_moved():
            found = (await admin.describe_topics(["assigned"]))["assigned"].partitions[0]
            return list(found.replicas) == [second, first]

        await until(has_moved, "the partition has its new replicas")
