"""What partitions must hold of acknowledged records, also where an acknowledgement told no offset."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from ottla import testing
from ottla.testing import assertions
from support.acknowledged import EpochRaises, check_compacted, check_kept
from support.deadlines import DEADLINE_S

WHERE = ("compacted", 0)


def load(promised, implied=(), epoch_raises=0):
    """A producer named p: the even of its records have the key `even`, the others `odd`."""
    return SimpleNamespace(
        epoch_raises=SimpleNamespace(count=epoch_raises),
        name="p",
        acknowledged=defaultdict(dict, {WHERE: promised}),
        implied=defaultdict(set, {WHERE: set(implied)}),
        sent={WHERE: {number: b"odd" if number % 2 else b"even" for number in range(10)}},
    )


def found(records):
    """offset → number of the record."""
    there = {offset: ("p", number) for offset, number in records.items()}
    return SimpleNamespace(found={WHERE: there}, starts={WHERE: 0})


@pytest.mark.parametrize(
    "records", [{12: 2, 13: 3}, {10: 0, 12: 2, 13: 3}], ids=["compacted", "with one record that is still there"]
)
def test_the_newest_of_each_key_is_enough(records):
    check_compacted(found(records), [load({10: 0, 11: 1, 12: 2, 13: 3})])


def test_an_unacknowledged_record_may_be_the_newest_of_its_key():
    check_compacted(found({11: 1, 12: 2}), [load({10: 0, 11: 1}, implied={2})])


@pytest.mark.parametrize(
    ("records", "rule"),
    [
        ({10: 0, 13: 3}, "the newest of some keys"),
        ({12: 2, 14: 3}, "p$"),
        ({12: 2, 13: 3, 14: 4}, "p$"),
    ],
    ids=["lost", "elsewhere", "invented"],
)
def test_a_lost_or_misplaced_record_is_detected(records, rule):
    with pytest.raises(AssertionError, match=rule):
        check_compacted(found(records), [load({10: 0, 11: 1, 12: 2, 13: 3})])


def kept(numbers, epoch_raises):
    """Check a partition that holds these, where only the last is acknowledged."""
    records = dict(enumerate(numbers))
    last = len(numbers) - 1
    producer = load({last: numbers[last]}, epoch_raises=epoch_raises)
    check_kept(found(records), [producer], lambda load, where: load.acknowledged[where])


def test_records_are_in_order():
    kept([0, 1, 3], epoch_raises=0)


@pytest.mark.parametrize("numbers", [[0, 1, 1, 2], [0, 2, 2, 3], [0, 1, 0, 1, 2], [0, 1, 2, 1]])
def test_a_producer_that_raised_its_epoch_may_begin_again_once(numbers):
    kept(numbers, epoch_raises=1)
    with pytest.raises(AssertionError, match="p repeats records"):
        kept(numbers, epoch_raises=0)


@pytest.mark.parametrize("numbers", [[0, 2, 1, 3], [0, 1, 2, 1, 3]])
def test_a_producer_that_begins_again_leaves_nothing_out(numbers):
    with pytest.raises(AssertionError, match=r"p is out of order at .*: \[2\]"):
        kept(numbers, epoch_raises=1)


def test_a_producer_begins_again_only_as_often_as_it_raised_its_epoch():
    with pytest.raises(AssertionError, match="p repeats records"):
        kept([0, 0, 0], epoch_raises=1)


def test_librdkafka_repeats_a_record_when_it_raises_its_epoch():
    """Why its producers may begin again. If this fails because nothing is repeated, `EpochRaises` can go."""
    raises = EpochRaises()
    with testing.cluster(1) as cluster:
        cluster.create_topic("unanswered")
        cluster.create_topic("refused")
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "batch.num.messages": 1,
            "retry.backoff.ms": 3000,  # nothing is sent again before the epoch is another one
        }
        producer = Producer(settings | raises.settings)
        for topic in ("unanswered", "refused"):
            producer.produce(topic, b"first")
        assert producer.flush(DEADLINE_S) == 0
        error = "NOT_LEADER_OR_FOLLOWER"
        cluster.faults.answer("Produce", topic="unanswered", error=error, applied=True, count=1)
        cluster.faults.answer("Produce", topic="refused", error=error, delay_s=0.3, count=1)  # others are under way
        producer.produce("unanswered", b"record")
        for number in range(3):
            producer.produce("refused", b"%d" % number)
        assert producer.flush(DEADLINE_S) == 0
        found = [record.value for record in assertions.read_topic(cluster.bootstrap_servers, "unanswered")]
    assert raises.count == 1
    assert found == [b"first", b"record", b"record"]
