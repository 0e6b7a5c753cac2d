"""What the controller decides when it is asked: ISR changes, moves, elections, brokers that are about to go."""

import asyncio

import pytest

from broker.controller.alter_partition import Proposal
from broker.controller.elections import ElectionType
from broker.errors import NotControllerError, RequestError
from protocol.error_codes import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.stop_replica import StopReplicaRequest
from registry.interface import Create, Delete
from registry.znodes.admin import PreferredReplicaElectionZnode, ReassignPartitionsZnode
from registry.znodes.brokers import BrokerZnode, Endpoint
from registry.znodes.controller import FeatureZnode
from registry.znodes.topics import PartitionStateZnode, TopicZnode
from support.controllers import NOW_MS, Cluster
from support.polling import until

KEY = ("t", 0)


@pytest.fixture
async def cluster(tmp_path):
    """Broker 1 is the controller; 2, 3 and 4 are there; t-0 is on 1, 2, 3."""
    async with Cluster(tmp_path, auto_leader_rebalance_enable="false") as cluster:
        for broker_id in (1, 2, 3, 4):
            await cluster.join(broker_id, runs=broker_id == 1)
        controller = await cluster.elected()
        await until(lambda: len(controller.context.brokers) == 4, "all are there")
        await cluster.create("t", [1, 2, 3])
        await until(lambda: cluster.leads(1, "t"), "it is led")
        cluster.controller = controller
        cluster.said.clear()
        yield cluster


def epoch(cluster, broker_id):
    return cluster.controller.context.brokers[broker_id].epoch


def proposal(cluster, in_sync, **more):
    leadership = cluster.controller.context.leaderships[KEY]
    epochs = {one: cluster.controller.live_broker_epoch(one) or -1 for one in in_sync}
    values = {
        "leader_epoch": leadership.state.leader_epoch,
        "partition_epoch": leadership.partition_epoch,
        "isr": epochs,
    }
    return Proposal(**{**values, **more})


async def propose(cluster, isr, leader=1, epochs=None, **more):
    """What the controller says to the leader: the ISR, or the name of an error."""
    proposals = {KEY: proposal(cluster, isr, **(more if epochs is None else {**more, "isr": epochs}))}
    outcomes = await cluster.controller.alter_partitions(leader, epoch(cluster, leader), lambda: proposals)
    outcome = outcomes[KEY]
    return outcome.name if isinstance(outcome, ErrorCode) else outcome.state.isr


# -- AlterPartition --------------------------------------------------------------------------------------------------


async def test_an_isr_shrinks_and_grows_with_the_partition_epoch(cluster):
    assert await propose(cluster, [1]) == [1]
    assert await propose(cluster, [1, 3]) == [1, 3]
    state = cluster.state("t")
    assert (state.isr, state.leader_epoch) == ([1, 3], 0)
    assert cluster.controller.context.leaderships[KEY].partition_epoch == 2
    await until(lambda: cluster.knows(4, "t") == 1, "everybody hears of it by metadata")
    assert cluster.leads(2, "t") is None  # and nobody by LeaderAndIsr: the leader knows, followers need not


async def test_a_proposal_that_is_already_applied_succeeds(cluster):
    stale = proposal(cluster, [1, 2])
    assert await propose(cluster, [1, 2]) == [1, 2]
    outcomes = await cluster.controller.alter_partitions(1, epoch(cluster, 1), lambda: {KEY: stale})
    assert (outcomes[KEY].state.isr, outcomes[KEY].partition_epoch) == ([1, 2], 1)


@pytest.mark.parametrize(
    ("isr", "more", "code"),
    [
        ([1, 2], {"partition_epoch": 5}, "NOT_CONTROLLER"),
        ([1, 2], {"leader_epoch": 5}, "NOT_CONTROLLER"),
        ([1, 2], {"leader_epoch": -1}, "FENCED_LEADER_EPOCH"),
        ([1, 2], {"partition_epoch": -1}, "INVALID_UPDATE_VERSION"),
        ([2], {}, "INVALID_REQUEST"),  # without the leader
        ([1, 4], {}, "INVALID_REQUEST"),  # 4 is no replica
        ([], {}, "INVALID_REQUEST"),
        ([1, 2], {"leader_recovery_state": 1}, "INVALID_REQUEST"),
        ([1], {"leader_recovery_state": 1}, "INVALID_REQUEST"),  # recovered once, recovered for good
        ([1, 2], {"leader": 2}, "INVALID_REQUEST"),
    ],
)
async def test_invalid_proposals_are_refused(cluster, isr, more, code):
    assert await propose(cluster, isr, **more) == code
    assert cluster.state("t").isr == [1, 2, 3]


async def test_a_replica_that_is_offline_shutting_down_or_restarted_cannot_join_the_isr(cluster):
    assert await propose(cluster, [1]) == [1]
    old = cluster.controller.context.brokers[2].epoch
    assert await propose(cluster, [1, 2], epochs={1: epoch(cluster, 1), 2: old - 1}) == "INELIGIBLE_REPLICA"
    assert await propose(cluster, [1, 2], epochs={1: -1, 2: -1}) == [1, 2]  # who knows no epochs names none
    await cluster.controller.relieve(3, epoch(cluster, 3))
    assert await propose(cluster, [1, 2, 3]) == "INELIGIBLE_REPLICA"
    await cluster.leave(3)
    await until(lambda: 3 not in cluster.controller.context.brokers, "it is gone")
    assert await propose(cluster, [1, 2, 3]) == "INELIGIBLE_REPLICA"


async def test_log_reports_a_refused_replica_unless_its_broker_stops(cluster, caplog):
    """A broker that stops fetches for some time, for each of its partitions: its refusals would fill the log."""
    caplog.set_level("INFO", "broker.controller.alter_partition")
    assert await propose(cluster, [1]) == [1]
    await cluster.controller.relieve(3, epoch(cluster, 3))
    assert await propose(cluster, [1, 3]) == "INELIGIBLE_REPLICA"
    await cluster.leave(3)
    await until(lambda: 3 not in cluster.controller.context.brokers, "it is gone")
    assert await propose(cluster, [1, 3]) == "INELIGIBLE_REPLICA"
    assert "may not join" not in caplog.text
    assert await propose(cluster, [1, 2], epochs={1: epoch(cluster, 1), 2: 1}) == "INELIGIBLE_REPLICA"
    assert "t-0: replicas [2] may not join the ISR [1, 2]" in caplog.text


async def test_a_stale_broker_epoch_refuses_the_whole_request(cluster):
    for broker_id, broker_epoch in ((1, epoch(cluster, 1) - 1), (9, 1)):
        with pytest.raises(RequestError) as raised:
            await cluster.controller.alter_partitions(broker_id, broker_epoch, lambda: {KEY: proposal(cluster, [1])})
        assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


async def test_a_proposal_is_read_after_the_events_before_it(cluster):
    """A controller that is new knows no topic's id before it has read the tree."""
    is_ready, read = asyncio.Event(), []

    def proposals():
        read.append(is_ready.is_set())
        return {KEY: proposal(cluster, [1])}

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cluster.controller.decide("something long", is_ready.wait))
        await asyncio.sleep(0)
        proposing = tasks.create_task(cluster.controller.alter_partitions(1, epoch(cluster, 1), proposals))
        await asyncio.sleep(0)
        is_ready.set()
    assert proposing.result()[KEY].state.isr == [1]
    assert read == [True]


async def test_unknown_partitions_are_refused(cluster):
    outcomes = await cluster.controller.alter_partitions(
        1, epoch(cluster, 1), lambda: {("t", 7): proposal(cluster, [1]), ("u", 0): proposal(cluster, [1])}
    )
    assert set(outcomes.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_proposal_for_a_state_that_cannot_be_read_is_refused(cluster):
    cluster.controller.context.unreadable.add(KEY)
    assert await propose(cluster, [1]) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert cluster.state("t").isr == [1, 2, 3]


async def test_a_state_written_by_another_writer_refuses_only_its_own_proposal(cluster):
    await cluster.create("u", [1, 2])
    await until(lambda: cluster.leads(1, "u"), "it is led")
    path = PartitionStateZnode.path("t", 0)
    await cluster.admin.set(path, cluster.state("t").replace(isr=[1, 3]).encode())
    both = {KEY: proposal(cluster, [1]), ("u", 0): Proposal(0, 0, {1: -1})}
    outcomes = await cluster.controller.alter_partitions(1, epoch(cluster, 1), lambda: both)
    assert outcomes[KEY] is ErrorCode.INVALID_UPDATE_VERSION
    assert outcomes[("u", 0)].state.isr == [1]
    assert cluster.state("t").isr == [1, 3]
    assert await propose(cluster, [1]) == [1]  # it has been read again


async def test_an_unknown_partition_is_refused(cluster):
    outcomes = await cluster.controller.alter_partitions(
        1, epoch(cluster, 1), lambda: {("unknown", 0): Proposal(0, 0, {1: -1}), ("t", 9): Proposal(0, 0, {1: -1})}
    )
    assert set(outcomes.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_write_whose_answer_is_lost_is_detected(cluster):
    cluster.members[1].registry.losses = 1
    assert await propose(cluster, [1, 2]) == [1, 2]
    assert cluster.controller.context.leaderships[KEY].partition_epoch == 1


async def test_a_broker_that_is_not_the_controller_decides_nothing(cluster):
    await cluster.members[1].registry.expire()
    await until(lambda: not cluster.controller.is_active, "it has resigned")
    with pytest.raises(NotControllerError):
        await cluster.controller.relieve(2, 1)


async def test_a_request_fails_if_the_term_ends_before_it_is_decided(cluster):
    async def never():
        await cluster.members[1].registry.expire()
        await cluster.members[1].registry.get("/controller")

    with pytest.raises(NotControllerError):
        await cluster.controller.decide("nothing", never)


# -- brokers that come, go and change ---------------------------------------------------------------------------------


async def test_a_lost_follower_leaves_the_isr_and_the_leader_is_notified(cluster):
    await cluster.leave(2)
    await until(lambda: cluster.leads(1, "t") == (1, 1, False), "it is told")
    assert cluster.state("t").isr == [1, 3]


async def test_a_broker_that_changes_its_endpoints_keeps_its_partitions(cluster):
    path = BrokerZnode.path(2)
    moved = BrokerZnode(endpoints=(Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 1),), timestamp_ms=NOW_MS)
    await cluster.admin.set(path, moved.encode())
    await until(lambda: cluster.controller.context.brokers[2].znode == moved, "it is known")
    assert cluster.leader("t") == (1, 0)
    assert cluster.state("t").isr == [1, 2, 3]
    await until(lambda: cluster.told(2, LeaderAndIsrRequest), "it is told everything at the new address")


async def test_a_broker_that_shuts_down_leads_and_follows_nothing(cluster):
    await cluster.create("u", [2, 3])
    await cluster.create("solo", [2])
    await until(lambda: cluster.leads(2, "solo"), "they are led")
    cluster.said.clear()
    assert await cluster.controller.relieve(2, epoch(cluster, 2)) == []
    assert cluster.leader("u") == (3, 1)
    assert cluster.state("u").isr == [3]
    assert cluster.state("t").isr == [1, 3]
    assert cluster.leader("solo") == (2, 0)  # to the end
    [stop] = cluster.told(2, StopReplicaRequest)
    [topic] = stop.topic_states
    assert (topic.topic_name, [(one.partition_index, one.delete_partition) for one in topic.partition_states]) == (
        "t",
        [(0, False)],
    )
    assert cluster.leads(2, "t") is None  # or it would follow again
    assert cluster.offline(4, "t") == [2]
    await cluster.create("new", [2, 3])
    await until(lambda: cluster.leads(3, "new"), "it is led")
    assert cluster.state("new").isr == [3]


async def test_the_only_in_sync_replica_keeps_the_partition_until_another_joins(cluster):
    assert await propose(cluster, [1]) == [1]
    assert await cluster.controller.relieve(1, epoch(cluster, 1)) == [KEY]
    assert await propose(cluster, [1, 3]) == [1, 3]  # the leader takes in a follower though it is about to go itself
    assert await cluster.controller.relieve(1, epoch(cluster, 1)) == []
    assert cluster.leader("t") == (3, 1)


async def test_a_broker_that_registers_again_is_no_longer_shutting_down(cluster):
    await cluster.controller.relieve(2, epoch(cluster, 2))
    path = BrokerZnode.path(2)
    data, _ = await cluster.admin.get(path)
    cluster.said.clear()
    await cluster.admin.multi([Delete(path), Create(path, data)])
    await until(lambda: cluster.leads(2, "t"), "it follows again")
    assert await propose(cluster, [1, 3, 2]) == [1, 3, 2]
    await cluster.admin.delete(path)


@pytest.mark.parametrize(("broker_id", "older", "code"), [(9, 0, "BROKER_NOT_AVAILABLE"), (2, 1, "STALE_BROKER_EPOCH")])
async def test_a_controlled_shutdown_needs_a_known_broker_and_its_current_epoch(cluster, broker_id, older, code):
    broker_epoch = (cluster.controller.live_broker_epoch(broker_id) or 0) - older
    with pytest.raises(RequestError) as raised:
        await cluster.controller.relieve(broker_id, broker_epoch)
    assert raised.value.code.name == code


# -- moves -----------------------------------------------------------------------------------------------------------


async def move(cluster, target, key=KEY):
    await cluster.controller.decide("move", lambda: cluster.controller.reassignments.submit(key, target))


async def test_a_reassignment_completes(cluster):
    await move(cluster, [4, 2])
    znode = await cluster.topic("t")
    assert (znode.partitions[0], znode.adding_replicas, znode.removing_replicas) == (
        [4, 2, 1, 3],
        {0: [4]},
        {0: [1, 3]},
    )
    assert cluster.leads(4, "t") == (1, 1, True)
    assert cluster.leads(2, "t") == (1, 1, False)
    assert cluster.controller.context.reassigning() == [KEY]
    assert await propose(cluster, [1, 2, 3, 4]) == [1, 2, 3, 4]
    await until(lambda: not cluster.controller.context.reassigning(), "it has moved")
    assert (await cluster.topic("t")).partitions[0] == [4, 2]
    assert cluster.state("t").isr == [2, 4]
    assert cluster.leader("t")[0] == 4
    await until(lambda: cluster.stopped(1) == cluster.stopped(3) == ["t"], "the old ones delete theirs")
    assert cluster.knows(1, "t") == 4


async def test_a_broker_that_registers_again_is_sent_its_reassignments_again(cluster):
    await move(cluster, [4])
    assert cluster.leader("t") == (1, 1)
    await cluster.leave(4)
    await until(lambda: 4 not in cluster.controller.context.brokers, "it is gone")
    assert cluster.leader("t") == (1, 1)
    cluster.said.clear()
    await cluster.join(4)
    await until(lambda: cluster.leads(4, "t") == (1, 2, True), "it is told, in another epoch")
    assert await propose(cluster, [1, 2, 3, 4]) == [1, 2, 3, 4]
    await until(lambda: not cluster.controller.context.reassigning(), "it has moved")


async def test_a_reassignment_is_cancelled_or_changed(cluster):
    await move(cluster, [4, 2])
    await move(cluster, None)
    assert (await cluster.topic("t")).partitions[0] == [2, 1, 3]  # the order of the move stays: that is all there is
    assert cluster.controller.context.reassigning() == []
    assert cluster.stopped(4) == ["t"]
    with pytest.raises(RequestError) as raised:
        await move(cluster, None)
    assert raised.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize(
    ("key", "target", "code"),
    [
        (KEY, [], "INVALID_REPLICA_ASSIGNMENT"),
        (KEY, [1, 1], "INVALID_REPLICA_ASSIGNMENT"),
        (KEY, [1, -2], "INVALID_REPLICA_ASSIGNMENT"),
        (KEY, [1, 9], "INVALID_REPLICA_ASSIGNMENT"),
        (("t", 5), [1], "UNKNOWN_TOPIC_OR_PARTITION"),
        (("u", 0), [1], "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
async def test_invalid_reassignments_are_refused(cluster, key, target, code):
    with pytest.raises(RequestError) as raised:
        await move(cluster, target, key)
    assert raised.value.code.name == code
    assert (await cluster.topic("t")).partitions[0] == [1, 2, 3]


async def test_the_next_controller_continues_a_reassignment(cluster):
    await move(cluster, [4, 2])
    cluster.stand(2)
    await cluster.leave(1)
    cluster.controller = await cluster.elected()
    assert cluster.controller.broker_id == 2
    assert cluster.controller.context.reassigning() == [KEY]
    assert await propose(cluster, [*cluster.state("t").isr, 4], leader=cluster.leader("t")[0])
    await until(lambda: not cluster.controller.context.reassigning(), "it has moved")
    assert (await cluster.topic("t")).partitions[0] == [4, 2]


async def test_the_reassign_partitions_znode_is_processed_without_its_invalid_entries(cluster, caplog):
    path = ReassignPartitionsZnode.path()
    asked = ReassignPartitionsZnode(partitions={KEY: [3, 1], ("ghost", 0): [1], ("t", 9): [2]})
    await cluster.admin.create(path, asked.encode())
    await until(lambda: cluster.node(path) is None, "it is done")  # 3 and 1 are in sync
    assert (await cluster.topic("t")).partitions[0] == [3, 1]
    assert "ghost-0 is ignored" in caplog.text
    await cluster.admin.create(path, b"{nonsense")
    await until(lambda: f"{path}:" in caplog.text, "it is reported")
    await cluster.create("good", [1])
    await until(lambda: cluster.leads(1, "good"), "the rest goes on")
    assert cluster.node(path) == b"{nonsense"


async def test_a_topic_can_be_deleted_during_its_reassignment(cluster):
    await move(cluster, [4])
    await cluster.delete("t")
    await until(lambda: not cluster.traces("t"), "it is gone")
    assert set(cluster.stopped(4)) == {"t"}


# -- elections -------------------------------------------------------------------------------------------------------


async def elect(cluster, kind, keys=(KEY,)):
    outcomes = await cluster.controller.decide("elections", lambda: cluster.controller.elections.elect(keys, kind))
    return {key: code.name for key, (code, _) in outcomes.items()}


async def lead_by_two(cluster):
    """As if broker 1 had been away for a moment."""
    state = cluster.controller.context.leaderships[KEY].state
    await cluster.controller._states.set({KEY: state.replace(leader=2, leader_epoch=1)})


async def test_the_preferred_leader_gets_its_partition_back(cluster):
    assert await elect(cluster, ElectionType.PREFERRED) == {KEY: "ELECTION_NOT_NEEDED"}
    await lead_by_two(cluster)
    assert await elect(cluster, ElectionType.PREFERRED) == {KEY: "NONE"}
    assert cluster.leader("t") == (1, 2)
    assert cluster.state("t").isr == [1, 2, 3]
    await until(lambda: cluster.leads(2, "t") == (1, 2, False), "it is told")


async def test_impossible_elections_are_refused(cluster):
    await lead_by_two(cluster)
    assert await propose(cluster, [2], leader=2) == [2]
    assert await elect(cluster, ElectionType.PREFERRED) == {KEY: "PREFERRED_LEADER_NOT_AVAILABLE"}
    assert await elect(cluster, ElectionType.UNCLEAN) == {KEY: "ELECTION_NOT_NEEDED"}
    assert await elect(cluster, ElectionType.PREFERRED, [("t", 4), ("u", 0)]) == {
        ("t", 4): "UNKNOWN_TOPIC_OR_PARTITION",
        ("u", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }


async def test_an_unclean_election_needs_a_live_replica_and_a_topic_that_is_not_deleted(cluster):
    await cluster.create("u", [4])
    await until(lambda: cluster.leads(4, "u"), "it is led")
    await cluster.leave(4)
    await until(lambda: cluster.leader("u")[0] == -1, "nobody leads it")
    key = ("u", 0)
    assert await elect(cluster, ElectionType.UNCLEAN, [key]) == {key: "ELIGIBLE_LEADERS_NOT_AVAILABLE"}
    await cluster.delete("u")
    await until(lambda: "u" in cluster.controller.context.deleting, "it waits for its replica")
    assert await elect(cluster, ElectionType.UNCLEAN, [key]) == {key: "INVALID_TOPIC_EXCEPTION"}


async def test_an_unclean_election_on_request_marks_the_leader_as_recovering(cluster):
    await lead_by_two(cluster)
    assert await propose(cluster, [2], leader=2) == [2]
    await cluster.leave(2)
    await until(lambda: cluster.leader("t")[0] == -1, "nobody leads it")
    assert await elect(cluster, ElectionType.UNCLEAN) == {KEY: "NONE"}
    state = cluster.state("t")
    assert (state.leader, state.isr, state.leader_recovery_state) == (1, [1], 1)
    assert await propose(cluster, [1, 3], leader_recovery_state=1) == "INVALID_REQUEST"
    assert await propose(cluster, [1, 3]) == [1, 3]
    assert cluster.state("t").leader_recovery_state == 0


async def test_enabling_unclean_election_for_a_topic_elects_a_leader(cluster):
    await cluster.create("u", [2, 3])
    await until(lambda: cluster.leads(2, "u"), "it is led")
    await cluster.controller._leaders.remove_from_isr(3, [("u", 0)])
    await cluster.leave(2)
    await until(lambda: cluster.leader("u")[0] == -1, "nobody leads it")
    cluster.unclean_topics.add("u")
    cluster.controller.leaders_may_be_found()
    await until(lambda: cluster.leader("u")[0] == 3, "it is led again")


async def test_the_preferred_replica_election_znode_is_processed(cluster, caplog):
    path = PreferredReplicaElectionZnode.path()
    await lead_by_two(cluster)
    await cluster.admin.create(path, PreferredReplicaElectionZnode(partitions=[KEY, ("ghost", 0)]).encode())
    await until(lambda: cluster.node(path) is None, "it is done")
    assert cluster.leader("t") == (1, 2)
    assert "ghost-0" in caplog.text
    await cluster.admin.create(path, b"[]")
    await until(lambda: f"{path}:" in caplog.text, "it is reported")
    assert cluster.node(path) == b"[]"


# -- what a controller finds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "found", "left"),
    [
        ("3.9", None, FeatureZnode()),
        ("3.9", FeatureZnode(status=0, version=1), FeatureZnode()),
        ("3.9", FeatureZnode(features={"f": 2}), FeatureZnode(features={"f": 2})),
        ("2.7", None, FeatureZnode(version=1)),
        ("2.6", FeatureZnode(features={"f": 2}), FeatureZnode(status=0, version=1)),
    ],
)
async def test_the_features_znode(version, found, left, tmp_path):
    async with Cluster(tmp_path, inter_broker_protocol_version=version) as cluster:
        if found is not None:
            await cluster.admin.create("/feature", found.encode())
        await cluster.join(1)
        await cluster.elected()
        assert cluster.node("/feature") == left.encode()


async def test_topics_get_no_id_below_the_protocol_version_of_topic_ids(tmp_path):
    async with Cluster(tmp_path, inter_broker_protocol_version="2.7") as cluster:
        await cluster.join(1)
        await cluster.elected()
        await cluster.create("t", [1], topic_id=None)
        await until(lambda: cluster.leads(1, "t"), "it is led")
        assert b"topic_id" not in cluster.node(TopicZnode.path("t"))
