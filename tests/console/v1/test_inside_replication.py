"""Replication of a partition in the consoles of its leader and its follower: live, and the way of a record."""

import pytest
import pytest_asyncio

from broker.inspection.replication import Replication
from client.producer.producer import Producer
from console.inspection.errors import BusyError
from support.own_console import listening, own_console
from support.pair import pair
from support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

REPLICATION = "/api/v1/inside/replication"
T0 = "topic=t&partition=0"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def brokers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inside")
    async with pair(folder, topic={"min.insync.replicas": "1"}, ottla_console_listener="127.0.0.1:0") as both:
        yield both


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def leader(brokers):
    async with own_console(brokers[0]) as api:
        yield api


def is_unwatched(broker):
    partition = broker.services.replicas.partitions[("t", 0)]
    return partition.watcher is None and not broker.services.produce_watchers


async def test_the_leader_knows_its_followers(brokers, leader):
    partition = brokers[0].services.replicas.partitions[("t", 0)]
    async with Producer(bootstrap_servers=brokers[0].bootstrap_servers) as producer:
        await producer.send("t", b"one", partition=0)
    await until(lambda: partition.sync.end_offsets[1] == partition.log.log_end_offset, "the follower has caught up")
    state = await leader.get(f"{REPLICATION}?{T0}")
    assert (state["broker_id"], state["leader"], state["replicas"], state["isr"]) == (0, 0, [0, 1], [0, 1])
    assert state["log_end_offset"] == state["high_watermark"] == partition.log.log_end_offset
    (follower,) = state["followers"]
    assert (follower["broker_id"], follower["end_offset"]) == (1, state["log_end_offset"])
    assert (follower["is_in_sync"], follower["caught_up_ms_ago"]) == (True, 0)


async def test_a_follower_knows_itself(brokers):
    async with own_console(brokers[1]) as follower:
        state = await follower.get(f"{REPLICATION}?{T0}")
        assert (state["broker_id"], state["leader"], state["followers"]) == (1, 0, [])
        answer = await follower.ask("POST", f"{REPLICATION}/trace", {"topic": "t", "partition": 0, "value": "v"})
        assert (answer.status, "Broker 0 leads t-0" in answer.body["message"]) == (409, True)


async def test_a_reader_sees_the_offsets_move(brokers, leader):
    async with listening(leader, f"{REPLICATION}/events?{T0}") as events:
        before = await events.next("state")
        async with Producer(bootstrap_servers=brokers[0].bootstrap_servers) as producer:
            await producer.send("t", b"another", partition=0)
        state = before
        while state["high_watermark"] <= before["high_watermark"]:
            state = await events.next("state")
        assert state["log_end_offset"] == before["log_end_offset"] + 1


async def test_a_record_is_followed_to_its_commit(brokers, leader):
    body = {"topic": "t", "partition": 0, "key": "k", "value": "followed"}
    answer = await leader.ask("POST", f"{REPLICATION}/trace", body)
    assert answer.status == 200, answer
    found = answer.body
    log = brokers[0].services.replicas.partitions[("t", 0)].log
    assert found["offset"] == log.log_end_offset - 1
    assert (found["segment"], found["position"]) == (0, log.segments.find(found["offset"])[1])
    assert found["missing"] == []
    steps = [(one["step"], one["broker_id"]) for one in found["steps"]]
    assert steps == [
        ("SENT", None),
        ("RECEIVED", 0),
        ("APPENDED", 0),
        ("FETCHED", 1),
        ("COMMITTED", 0),
        ("ANSWERED", None),
    ]
    assert is_unwatched(brokers[0])


async def test_one_record_of_a_partition_at_a_time(brokers, leader):
    replication = Replication(brokers[0].services)
    trace = replication.trace("t", 0)
    with pytest.raises(BusyError):
        replication.trace("t", 0)
    answer = await leader.ask("POST", f"{REPLICATION}/trace", {"topic": "t", "partition": 0, "value": "v"})
    assert answer.status == 503
    trace.close()
    trace.close()
    assert is_unwatched(brokers[0])


async def test_a_partition_with_one_replica(brokers, leader):
    assert (await leader.ask("POST", "topics", {"topic_name": "alone", "replication_factor": 1})).status == 201
    own = next(one for one in brokers if ("alone", 0) in one.services.replicas.partitions)
    async with own_console(own) as api:
        answer = await api.ask("POST", f"{REPLICATION}/trace", {"topic": "alone", "partition": 0, "value": "v"})
        steps = [one["step"] for one in answer.body["steps"]]
        assert steps == ["SENT", "RECEIVED", "APPENDED", "COMMITTED", "ANSWERED"]
        assert (await api.get(f"{REPLICATION}?topic=alone&partition=0"))["followers"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"topic": "none", "partition": 0, "value": "v"}, 404),
        ({"topic": "t", "partition": 9, "value": "v"}, 404),
        ({"topic": "t", "partition": -1, "value": "v"}, 400),
        ({"topic": "t", "partition": 0, "value": "v" * 65_537}, 400),
        ({"topic": "t", "partition": 0}, 400),
    ],
)
async def test_refused_records(leader, body, status):
    assert (await leader.ask("POST", f"{REPLICATION}/trace", body)).status == status
