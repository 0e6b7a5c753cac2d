"""Rates between two snapshots, and the bounded list of them."""

from client.admin.types import ClusterDescription
from client.topic_partition import TopicPartition
from client.wire.metadata import TopicMetadata
from console.inside import Traffic
from console.watching.rates import KEPT_MS, MAX_POINTS, Point, Rates, cluster_rates, traffic_rates
from console.watching.snapshot import BrokerDisk, Snapshot

A, B, INTERNAL = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("__x", 0)


def snapshot(time_ms, ends, sizes=None, ids=None):
    topics = {
        name.topic: TopicMetadata(name.topic, (ids or {}).get(name, b"1"), name is INTERNAL, 0, {}) for name in ends
    }
    disks = {1: BrokerDisk(0, None, None, 0, 1)}
    return Snapshot(time_ms, ClusterDescription("c", 1, ()), topics, ends, disks, sizes or {}, None, ())


def test_only_records_of_topics_that_both_snapshots_know_count():
    before = snapshot(0, {A: 10, INTERNAL: 0}, {A: 100})
    after = snapshot(2000, {A: 14, B: 99, INTERNAL: 50}, {A: 500})
    assert cluster_rates(before, after) == Point(2000, (2.0, 200.0))


def test_deleted_segments_and_recreated_topics_are_no_negative_rate():
    before = snapshot(0, {A: 10, B: 10}, {A: 100, B: 5})
    after = snapshot(1000, {A: 10, B: 3}, {A: 50, B: 7}, ids={B: b"2"})
    assert cluster_rates(before, after) == Point(1000, (0.0, 0.0))


def test_rates_of_one_broker():
    before, after = (1000, Traffic(10, 0, 100)), (3000, Traffic(30, 8, 0))
    assert traffic_rates(before, after) == Point(3000, (10.0, 4.0, 0.0))


def test_a_gap_interrupts_the_line_and_old_points_are_dropped():
    rates = Rates(1)
    rates.add(0, Point(5000, (1.0,)))
    rates.add(5000, Point(100_000, (2.0,)))
    assert rates.points == (Point(5000, (1.0,)), Point(5001, (None,)), Point(100_000, (2.0,)))
    late = 100_000 + KEPT_MS + 1
    rates.add(late - 1, Point(late, (3.0,)))
    assert rates.points == (Point(late, (3.0,)),)
    for number in range(2 * MAX_POINTS):
        rates.add(late, Point(late + number, (3.0,)))
    assert len(rates.points) == MAX_POINTS
