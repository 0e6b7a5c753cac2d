"""Deleting topics: asked for by a znode, done when no replica is left anywhere."""

import asyncio
import random

import pytest

from broker.controller.topic_deletion import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS, TopicDeletion
from client.wire.backoff import Backoff
from protocol.error_codes import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaResponse
from registry.znodes.configs import TopicConfigZnode
from support.controllers import ID, Cluster
from support.polling import until

OTHER_ID = bytes(reversed(ID))


@pytest.fixture
async def cluster(tmp_path):
    async with Cluster(tmp_path) as cluster:
        await cluster.join(1)
        await cluster.elected()
        await cluster.join(2)
        yield cluster


async def led(cluster, topic="t", *replicas, **how):
    await cluster.create(topic, *(replicas or ([1], [2])), **how)
    await cluster.admin.create(TopicConfigZnode.path(topic), TopicConfigZnode(config={"retention.ms": "1"}).encode())
    await until(lambda: cluster.knows(2, topic) is not None, "it leads")


async def test_all_znodes_of_a_topic_are_deleted(cluster):
    await led(cluster)
    await led(cluster, "other")
    await cluster.delete("t")
    await until(lambda: not cluster.traces("t"), "it is gone")
    assert [cluster.stopped(1), cluster.stopped(2)] == [["t"], ["t"]]
    assert cluster.knows(1, "t", 0) == cluster.knows(2, "t", 0) == -2
    assert len(cluster.traces("other")) == 2


async def test_a_topic_that_does_not_exist(cluster):
    await cluster.delete("ghost")
    await until(lambda: not cluster.traces("ghost"), "the request is gone")


async def test_znodes_are_deleted_only_after_every_replica(cluster):
    cluster.obeys = False
    await led(cluster)
    await cluster.delete("t")
    await until(lambda: len(cluster.unanswered) == 2, "both are asked")
    assert cluster.knows(1, "t", 1) == -2  # hidden at once
    cluster.answer(0)
    await asyncio.sleep(0.02)
    assert len(cluster.traces("t")) == 3
    cluster.answer(0)
    await until(lambda: not cluster.traces("t"), "it is gone")


async def test_the_deletion_of_a_replica_is_retried_after_an_error(cluster, caplog):
    cluster.obeys = False
    await led(cluster, "t", [2])
    await cluster.delete("t")
    for _ in range(3):
        await until(lambda: cluster.unanswered, "it is asked")
        cluster.answer(-1)
    await until(lambda: cluster.unanswered, "it is asked")
    cluster.answer(0)
    await until(lambda: not cluster.traces("t"), "it is gone")
    assert caplog.text.count("broker 2 could not delete its replicas of t") == 3


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_the_delays_before_it_is_asked_for_again_grow(code):
    delays_s = []
    backoff = Backoff(RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS, random.Random(1))
    deletion = TopicDeletion(None, None, None, None, None, delays_s.append, backoff)
    deletion._asked["t"] = {}
    refusal = StopReplicaResponse(partition_errors=[StopReplicaPartitionError(topic_name="t", error_code=code)])
    for _ in range(7):
        deletion._answered("t", 2, refusal)
    assert delays_s == pytest.approx([1, 2, 4, 8, 16, 30, 30], rel=0.2)
    deletion._forget("t")
    deletion._asked["t"] = {}
    deletion._answered("t", 2, refusal)
    assert delays_s[-1] == pytest.approx(1, rel=0.2)


async def test_an_offline_broker_delays_a_deletion(cluster):
    await led(cluster)
    await cluster.leave(2)
    await until(lambda: cluster.leader("t", 1) == (-1, 1), "it is away")
    await cluster.delete("t")
    await until(lambda: cluster.stopped(1) == ["t"], "the other is asked")
    await led_again(cluster)
    assert len(cluster.traces("t")) == 3
    cluster.said.clear()
    await cluster.join(2)
    await until(lambda: not cluster.traces("t"), "it is gone")
    assert cluster.stopped(2) == ["t"]
    assert cluster.told(2, LeaderAndIsrRequest) == []  # not made again


async def led_again(cluster):
    """Whatever the controller had to do for the deletion is done: it has done something later."""
    await cluster.create("later", [1])
    await until(lambda: cluster.leads(1, "later"), "it leads")


async def test_a_topic_is_hidden_while_all_its_replicas_are_offline(cluster):
    await led(cluster, "t", [2])
    await cluster.leave(2)
    await until(lambda: cluster.knows(1, "t") == -1, "it is away")
    await cluster.delete("t")
    await until(lambda: cluster.knows(1, "t") == -2, "it is hidden")


async def test_a_broker_that_restarts_before_it_has_answered_is_asked_again(cluster):
    cluster.obeys = False
    await led(cluster, "t", [2])
    await cluster.delete("t")
    await until(lambda: cluster.unanswered, "it is asked")
    await cluster.leave(2)
    cluster.obeys = True
    cluster.unanswered.clear()
    await cluster.join(2)
    await until(lambda: not cluster.traces("t"), "it is gone")
    assert cluster.stopped(2) == ["t", "t"]


async def test_the_next_controller_continues_the_deletion(cluster):
    cluster.obeys = False
    await led(cluster, "t", [2])
    await cluster.delete("t")
    await until(lambda: cluster.unanswered, "it is asked")
    cluster.obeys = True
    cluster.unanswered.clear()
    await cluster.leave(1)
    await until(lambda: not cluster.traces("t"), "it is gone")


async def test_a_controller_that_is_elected_again_asks_again(cluster):
    """What it knew of its first term may be wrong by now."""
    cluster.obeys = False
    await led(cluster, "t", [2])
    await cluster.delete("t")
    await until(lambda: cluster.unanswered, "it is asked")
    cluster.obeys = True
    cluster.unanswered.clear()
    await cluster.admin.delete("/controller")
    await until(lambda: not cluster.traces("t"), "it is gone")


@pytest.mark.parametrize("losses", [1, 2, 3, 4, 5])
async def test_lost_registry_answers_do_no_harm(cluster, losses):
    await led(cluster)
    cluster.members[1].registry.losses = losses
    await cluster.delete("t")
    await until(lambda: not cluster.traces("t"), "it is gone")
    assert cluster.active == [1]


async def test_a_topic_recreated_at_once_is_a_new_topic(cluster):
    await led(cluster)
    await cluster.delete("t")
    await until(lambda: not cluster.traces("t"), "it is gone")
    cluster.said.clear()
    await cluster.create("t", [2], topic_id=OTHER_ID)
    await until(lambda: cluster.leads(2, "t") == (2, 0, True), "it leads")
    assert cluster.told(2, LeaderAndIsrRequest)[-1].topic_states[0].topic_id == OTHER_ID
    assert cluster.knows(1, "t") == 2
    await cluster.delete("t")
    await until(lambda: not cluster.traces("t"), "it can be deleted too")


async def test_with_deletion_disabled_the_request_is_removed(tmp_path, caplog):
    async with Cluster(tmp_path, delete_topic_enable="false") as cluster:
        await cluster.join(1)
        await cluster.elected()
        await cluster.join(2)
        await led(cluster)
        await cluster.delete("t")
        await until(lambda: len(cluster.traces("t")) == 2, "the request is gone")
        assert "topic t is not deleted: delete.topic.enable is false" in caplog.text
        assert cluster.leader("t") == (1, 0)
        assert cluster.stopped(1) == []
