"""What differs between two snapshots."""

from client.admin.types import ClusterDescription
from client.wire.metadata import BrokerMetadata, PartitionMetadata, TopicMetadata
from console.watching.changes import Change, changes
from console.watching.snapshot import GroupState, Snapshot


def topic(name, *leaders, topic_id=b"1"):
    partitions = {n: PartitionMetadata(n, leader, 0, (1, 2), (1, 2), (), 0) for n, leader in enumerate(leaders)}
    return TopicMetadata(name, topic_id, False, 0, partitions)


def snapshot(*topics, brokers=(1, 2), controller=1, groups=None, has_all_groups=True, time_ms=7):
    cluster = ClusterDescription("c", controller, tuple(BrokerMetadata(one, "h", 9, None) for one in brokers))
    return Snapshot(time_ms, cluster, {one.name: one for one in topics}, {}, {}, {}, groups, (), {}, has_all_groups)


def test_nothing_differs():
    same = snapshot(topic("a", 1, 2), groups={"g": GroupState("Stable", frozenset("m"), 3)})
    assert changes(same, same) == []


def test_topics_come_go_and_grow():
    before = snapshot(topic("gone", 1), topic("grown", 1), topic("again", 1))
    after = snapshot(topic("grown", 1, 2), topic("again", 1, topic_id=b"2"), topic("new", 1))
    assert changes(before, after) == [
        Change(7, "deleted", topic="gone"),
        Change(7, "has 2 partitions now, 1 before", topic="grown"),
        Change(7, "deleted and recreated", topic="again"),
        Change(7, "created with 1 partition", topic="new"),
    ]


def test_a_broker_leaves_and_its_leaders_move():
    before = snapshot(topic("a", 1, 2), topic("b", 1))
    after = snapshot(topic("a", 2, 2), topic("b", -1), brokers=(2, 3), controller=2)
    assert changes(before, after) == [
        Change(7, "left the cluster", broker=1),
        Change(7, "joined the cluster", broker=3),
        Change(7, "became the controller", broker=2),
        Change(7, "1 partition: no leader; it was broker 1", topic="b"),
        Change(7, "1 partition: leader moved from broker 1 to broker 2", topic="a"),
    ]


def test_leaders_of_many_topics_are_one_change():
    names = [f"t{number}" for number in range(100)]
    before, after = (snapshot(*(topic(name, leader) for name in names)) for leader in (1, 2))
    assert changes(before, after) == [Change(7, "100 partitions of 100 topics: leader moved from broker 1 to broker 2")]


def test_groups():
    def group(state, *members):
        return GroupState(state, frozenset(members), None)

    before = {"gone": group("Empty"), "joined": group("Stable", "a"), "busy": group("Stable", "a")}
    after = {"joined": group("Stable", "a", "b"), "busy": group("PreparingRebalance", "a"), "new": group("Empty")}
    assert changes(snapshot(groups=before), snapshot(groups=after)) == [
        Change(7, "deleted", group="gone"),
        Change(7, "rebalanced: 2 members", group="joined"),
        Change(7, "rebalances", group="busy"),
        Change(7, "new, with 0 members", group="new"),
    ]
    assert changes(snapshot(groups=None), snapshot(groups=after)) == []


def test_groups_of_which_a_broker_has_not_told_are_neither_deleted_nor_new():
    group = GroupState("Stable", frozenset("a"), None)
    every, some = snapshot(groups={"a": group, "b": group}), snapshot(groups={"b": group}, has_all_groups=False)
    assert changes(every, some) == []
    assert changes(some, every) == []
