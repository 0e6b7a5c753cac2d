"""What happened in a group: each reading is compared with the one before."""

from client.admin.types import GroupDescription, GroupMember
from client.topic_partition import TopicPartition
from console.groups.timeline import MAX_EVENTS, MAX_LANES, Timeline


def member(name, *partitions):
    assigned = tuple(TopicPartition("orders", number) for number in partitions)
    return GroupMember(f"{name}-id-{name * 6}", None, name, "/127.0.0.1", assigned)


def group(state, *members, epoch=-1):
    return GroupDescription("billing", state, "consumer", "consumer", "uniform", tuple(members), 1, epoch, epoch)


def test_members_states_epochs_and_partitions():
    timeline = Timeline()
    timeline.add(1_000, group("Stable", member("a", 0, 1), epoch=3))
    timeline.add(2_000, group("Reconciling", member("a", 0), member("b"), epoch=4))
    timeline.add(3_000, group("Stable", member("a", 0), member("b", 1), epoch=4))
    timeline.add(4_000, group("Stable", member("b", 0, 1), epoch=5))
    assert timeline.since_ms == 1_000
    assert [(one.from_ms, one.state) for one in timeline.states] == [
        (1_000, "Stable"),
        (2_000, "Reconciling"),
        (3_000, "Stable"),
    ]
    assert [(one.at_ms, one.kind, one.text) for one in timeline.events] == [
        (1_000, "state", "Stable"),
        (1_000, "joined", "a (…aaaaaa) was there from 127.0.0.1"),
        (2_000, "state", "Stable → Reconciling"),
        (2_000, "epoch", "group epoch 3 → 4"),
        (2_000, "epoch", "target assignment of epoch 4"),
        (2_000, "assigned", "a (…aaaaaa) lost orders-1"),
        (2_000, "joined", "b (…bbbbbb) joined from 127.0.0.1"),
        (3_000, "state", "Reconciling → Stable"),
        (3_000, "assigned", "b (…bbbbbb) got orders-1"),
        (4_000, "epoch", "group epoch 4 → 5"),
        (4_000, "epoch", "target assignment of epoch 5"),
        (4_000, "left", "a (…aaaaaa) left"),
        (4_000, "assigned", "b (…bbbbbb) got orders-0"),
    ]
    assert [(one.client_id, one.from_ms, one.to_ms, one.counts) for one in timeline.lanes] == [
        ("a", 1_000, 4_000, [(1_000, 2), (2_000, 1)]),
        ("b", 2_000, None, [(2_000, 0), (3_000, 1), (4_000, 2)]),
    ]


def test_it_is_bounded():
    timeline = Timeline()
    for number in range(1_000):
        timeline.add(number, group("Stable" if number % 2 else "Empty", member(f"m{number}", 0)))
    assert len(timeline.events) == MAX_EVENTS
    assert len(timeline.lanes) == MAX_LANES
