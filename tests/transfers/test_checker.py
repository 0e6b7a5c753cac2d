"""The checker of transfers: silent about good histories, and every anomaly that is planted in one is named.

The good history to plant in is small and written out; random ones come from a model of a broker that makes no mistake.
"""

from __future__ import annotations

import copy
import json
import random

import pytest

from support.transfers.anomaly import PERMITTED, Kind, anomaly
from support.transfers.checker import check
from support.transfers.dependencies import permitted
from support.transfers.good_history import good_history
from support.transfers.history import (
    Committed,
    End,
    History,
    Outcome,
    Poll,
    Reader,
    Record,
    Reset,
    Rest,
    Seek,
    Start,
    Transaction,
    Write,
)
from support.transfers.journal import Journal, read_journals
from support.transfers.report import report

IN, OUT = ("in", 0), ("out", 0)


def history() -> History:
    """Feeder: one transaction committed, one aborted, one with an unknown end that is committed; a transfer; a plain
    record; readers from the beginnings. Offsets 3, 5 and 8 of `in` and 2 of `out` are markers."""
    committed = Transaction("feeder.1", 0, "feeder", 10, 20, 25, Outcome.OK,
        [Write(IN, "a1", 11, 0), Write(IN, "a2", 12, 1), Write(IN, "a3", 13, 2)])  # fmt: skip
    aborted = Transaction("feeder.1", 1, "feeder", 30, None, 35, Outcome.FAIL, [Write(IN, "b1", 31, 4)])
    unknown = Transaction("feeder.2", 0, "feeder", 45, 50, None, Outcome.UNKNOWN,
        [Write(IN, "c1", 46, 6), Write(IN, "c2", 47)])  # fmt: skip
    transfer = Transaction("mover.1", 0, "mover", 60, 70, 75, Outcome.OK,
        [Write(OUT, "t1", 61, 0), Write(OUT, "t2", 62, 1)],
        [Record(IN, 0, "a1"), Record(IN, 1, "a2")], "group", {IN: 2})  # fmt: skip
    plain = Transaction("plain", 0, None, 80, 80, 85, Outcome.OK, [Write(OUT, "p1", 80, 3)])
    everything = {0: "a1", 1: "a2", 2: "a3", 4: "b1", 6: "c1", 7: "c2"}
    visible = {offset: value for offset, value in everything.items() if value != "b1"}
    out = {0: "t1", 1: "t2", 3: "p1"}
    follower = Reader("follower", True, [
        Seek(IN, 0), Seek(OUT, 0),
        Poll(26, [Record(IN, 0, "a1"), Record(IN, 1, "a2"), Record(IN, 2, "a3")]),
        Poll(55, [Record(IN, 6, "c1"), Record(IN, 7, "c2")]),
        Poll(90, [Record(OUT, 0, "t1"), Record(OUT, 1, "t2"), Record(OUT, 3, "p1")]),
        End(IN, 9), End(OUT, 4),
    ])  # fmt: skip
    uncommitted = Reader("uncommitted", False, [
        Seek(IN, 0),
        Poll(14, [Record(IN, 0, "a1")]),
        Poll(48, [Record(IN, 1, "a2"), Record(IN, 2, "a3"), Record(IN, 4, "b1"), Record(IN, 6, "c1")]),
        Poll(52, [Record(IN, 7, "c2")]),
        End(IN, 9),
    ])  # fmt: skip
    return History(
        [Start("feeder.1", "feeder", 1, 5), Start("feeder.2", "feeder", 40, 44), Start("mover.1", "mover", 1, 5)],
        [committed, aborted, unknown, transfer, plain],
        [follower, uncommitted],
        {IN: Rest(9, 9, everything, visible), OUT: Rest(4, 4, out, dict(out))},
        {("group", IN): 2},
        [Committed("plain group", IN, 3, 30), Committed("plain group", IN, 7, 60)],
        [
            Committed("plain group", IN, -1, 20),
            Committed("plain group", IN, 3, 60),
            Committed("plain group", IN, 7, 70),
        ],
    )


def kinds(broken: History) -> set[Kind]:
    return {found.kind for found in check(broken)}


def test_a_good_history_is_clean():
    assert check(history()) == []


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_random_good_histories_are_clean(first):
    for seed in range(first, first + 100):
        assert check(good_history(seed)) == [], seed


# -- planted: each takes a good history and spoils it -----------------------------------------------------------------


def of(spoilt: History, client: str, number: int = 0) -> Transaction:
    return next(each for each in spoilt.transactions if (each.client, each.number) == (client, number))


def committed_write_is_gone(spoilt):
    del spoilt.rest[IN].committed[2]
    del spoilt.rest[IN].everything[2]


def committed_write_is_not_visible(spoilt):
    del spoilt.rest[IN].committed[2]


def acknowledged_write_of_an_abort_is_gone(spoilt):
    del spoilt.rest[IN].everything[4]


def acknowledged_plain_write_is_gone(spoilt):
    del spoilt.rest[OUT].committed[3]


def value_that_was_read_is_committed_no_more(spoilt):
    for offset in (6, 7):
        del spoilt.rest[IN].committed[offset]


def value_is_there_twice(spoilt):
    spoilt.rest[IN].everything[8] = "c2"


def value_is_read_at_another_place_than_acknowledged(spoilt):
    of(spoilt, "mover.1").writes[1].offset = 2


def value_that_nobody_sent(spoilt):
    spoilt.rest[OUT].everything[2] = "who?"


def value_in_a_partition_to_which_it_was_not_sent(spoilt):
    spoilt.rest[OUT].everything[2] = "c2"


def two_values_at_one_offset_for_two_readers(spoilt):
    spoilt.readers[0].events[4] = Poll(90, [Record(OUT, 0, "t2"), Record(OUT, 1, "t2"), Record(OUT, 3, "p1")])


def acknowledged_offset_holds_another_value(spoilt):
    of(spoilt, "mover.1").writes[0].offset = 1


def a_transfer_reads_another_value(spoilt):
    of(spoilt, "mover.1").inputs[1] = Record(IN, 1, "a3")


def writes_change_places(spoilt):
    first, second, _ = of(spoilt, "feeder.1").writes
    first.sent_ns, second.sent_ns = second.sent_ns, first.sent_ns
    of(spoilt, "feeder.1").writes[:2] = [second, first]


def transactions_change_places(spoilt):
    spoilt.transactions[0].writes, spoilt.transactions[1].writes = (
        spoilt.transactions[1].writes,
        spoilt.transactions[0].writes,
    )


def a_committed_write_is_never_polled(spoilt):
    spoilt.readers[0].events[4] = Poll(90, [Record(OUT, 0, "t1"), Record(OUT, 3, "p1")])


def a_transfer_reads_around_a_record(spoilt):
    of(spoilt, "mover.1").inputs[1] = Record(IN, 2, "a3")


def a_transfer_reads_one_again(spoilt):
    of(spoilt, "mover.1").inputs.append(Record(IN, 1, "a2"))


def transfers_read_each_other(spoilt):
    of(spoilt, "feeder.1").inputs.append(Record(OUT, 0, "t1"))


def aborted_value_is_committed(spoilt):
    spoilt.rest[IN].committed[4] = "b1"


def aborted_value_is_read_by_a_reader_of_committed_data(spoilt):
    spoilt.readers[0].events.insert(3, Poll(36, [Record(IN, 4, "b1")]))


def aborted_value_is_transferred(spoilt):
    of(spoilt, "mover.1").inputs.append(Record(IN, 4, "b1"))


def value_is_read_before_the_commit(spoilt):
    spoilt.readers[0].events[2] = spoilt.readers[0].events[2]._replace(told_ns=19)


def value_is_read_before_a_commit_without_answer(spoilt):
    spoilt.readers[0].events[3] = spoilt.readers[0].events[3]._replace(told_ns=49)


def half_of_an_unknown_commit_is_visible(spoilt):
    del spoilt.rest[IN].committed[7]


def writes_are_committed_and_offsets_are_not(spoilt):
    spoilt.offsets.clear()


def successor_has_begun_before_the_commit(spoilt):
    spoilt.starts.append(Start("mover.2", "mover", 50, 65))


def zombie_writes(spoilt):
    of(spoilt, "feeder.1", 1).writes[0].sent_ns = 60


def last_stable_offset_is_stuck(spoilt):
    spoilt.rest[IN].stable = 6


def offsets_of_an_abort_are_committed(spoilt):
    spoilt.offsets["group", IN] = 3


def two_transactions_transfer_one_record(spoilt):
    again = copy.deepcopy(of(spoilt, "mover.1"))
    again.number, again.writes = 1, [Write(OUT, "again", 76, 2)]
    spoilt.transactions.append(again)
    spoilt.rest[OUT].everything[2] = spoilt.rest[OUT].committed[2] = "again"


def a_commit_is_gone_later(spoilt):
    spoilt.positions[2] = spoilt.positions[2]._replace(offset=3)


def reader_misses_one(spoilt):
    spoilt.readers[0].events[3] = Poll(55, [Record(IN, 7, "c2")])


def reader_misses_the_last_ones(spoilt):
    spoilt.readers[0].events[3] = Poll(55, [])


def reader_of_uncommitted_data_misses_an_aborted_one(spoilt):
    poll = spoilt.readers[1].events[2]
    spoilt.readers[1].events[2] = poll._replace(records=[one for one in poll.records if one.value != "b1"])


def reader_misses_one_after_a_seek(spoilt):
    spoilt.readers[0].events[5:5] = [Seek(IN, 1), Poll(95, [Record(IN, 2, "a3")])]


def reader_gets_one_again(spoilt):
    spoilt.readers[0].events.insert(4, Poll(56, [Record(IN, 7, "c2")]))


def reader_goes_back(spoilt):
    spoilt.readers[0].events.insert(4, Poll(56, [Record(IN, 6, "c1"), Record(IN, 7, "c2")]))


def reader_gets_one_before_its_seek(spoilt):
    spoilt.readers[1].events.insert(4, Seek(IN, 2))
    spoilt.readers[1].events.insert(5, Poll(53, [Record(IN, 1, "a2"), Record(IN, 2, "a3")]))


def reader_is_out_of_range(spoilt):
    spoilt.readers[0].events.insert(3, Reset(IN))


def reader_never_comes_to_the_end(spoilt):
    spoilt.readers[0].events.remove(End(IN, 9))


PLANTED = {
    committed_write_is_gone: Kind.LOST_WRITE,
    committed_write_is_not_visible: Kind.LOST_WRITE,
    acknowledged_write_of_an_abort_is_gone: Kind.LOST_WRITE,
    acknowledged_plain_write_is_gone: Kind.LOST_WRITE,
    value_that_was_read_is_committed_no_more: Kind.LOST_WRITE,
    value_is_there_twice: Kind.DUPLICATE,
    value_is_read_at_another_place_than_acknowledged: Kind.DUPLICATE,
    value_that_nobody_sent: Kind.INVENTED_VALUE,
    value_in_a_partition_to_which_it_was_not_sent: Kind.INVENTED_VALUE,
    two_values_at_one_offset_for_two_readers: Kind.INCONSISTENT_OFFSETS,
    acknowledged_offset_holds_another_value: Kind.INCONSISTENT_OFFSETS,
    a_transfer_reads_another_value: Kind.INCONSISTENT_OFFSETS,
    writes_change_places: Kind.INT_NONMONOTONIC_SEND,
    transactions_change_places: Kind.NONMONOTONIC_SEND,
    a_committed_write_is_never_polled: Kind.UNSEEN,
    a_transfer_reads_around_a_record: Kind.INT_POLL_SKIP,
    a_transfer_reads_one_again: Kind.INT_NONMONOTONIC_POLL,
    transfers_read_each_other: Kind.G1C,
    aborted_value_is_committed: Kind.ABORTED_READ,
    aborted_value_is_read_by_a_reader_of_committed_data: Kind.ABORTED_READ,
    aborted_value_is_transferred: Kind.ABORTED_READ,
    value_is_read_before_the_commit: Kind.PRECOMMITTED_READ,
    value_is_read_before_a_commit_without_answer: Kind.PRECOMMITTED_READ,
    half_of_an_unknown_commit_is_visible: Kind.TORN_TRANSACTION,
    writes_are_committed_and_offsets_are_not: Kind.TORN_TRANSACTION,
    successor_has_begun_before_the_commit: Kind.ZOMBIE,
    zombie_writes: Kind.ZOMBIE,
    last_stable_offset_is_stuck: Kind.HANGING_TRANSACTION,
    offsets_of_an_abort_are_committed: Kind.LOST_TRANSFER,
    two_transactions_transfer_one_record: Kind.REPEATED_TRANSFER,
    a_commit_is_gone_later: Kind.LOST_COMMIT,
    reader_misses_one: Kind.POLL_SKIP,
    reader_misses_the_last_ones: Kind.POLL_SKIP,
    reader_of_uncommitted_data_misses_an_aborted_one: Kind.POLL_SKIP,
    reader_misses_one_after_a_seek: Kind.POLL_SKIP,
    reader_gets_one_again: Kind.NONMONOTONIC_POLL,
    reader_goes_back: Kind.NONMONOTONIC_POLL,
    reader_gets_one_before_its_seek: Kind.NONMONOTONIC_POLL,
    reader_is_out_of_range: Kind.POLL_RESET,
    reader_never_comes_to_the_end: Kind.UNFINISHED_READ,
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_each_planted_anomaly_is_found(plant):
    spoilt = history()
    plant(spoilt)
    assert PLANTED[plant] in kinds(spoilt)


def test_every_kind_is_planted():
    assert set(PLANTED.values()) == set(Kind) - PERMITTED


def test_an_anomaly_names_its_records():
    spoilt = history()
    half_of_an_unknown_commit_is_visible(spoilt)
    (torn,) = [found for found in check(spoilt) if found.kind is Kind.TORN_TRANSACTION]
    assert torn.partition == IN
    assert torn.values == ("c2",)
    assert torn.operations == ("feeder.2/0 (unknown)",)
    assert str(torn) == (
        "torn transaction in in-0: 1 of 2 writes are not committed [values c2; operations feeder.2/0 (unknown)]"
    )


def test_behaviour_that_kafka_does_not_promise_is_no_anomaly():
    """An unknown commit that does not count, whole; producers that begin at the same time."""
    changed = history()
    for offset in (6, 7):
        del changed.rest[IN].committed[offset]
    changed.readers[0].events[3] = Poll(55, [])
    assert check(changed) == []
    late = history()
    late.starts.append(Start("mover.2", "mover", 3, 65))  # it began while the first did: who knows which is the zombie
    assert check(late) == []


def test_what_kafka_permits_is_counted_and_no_anomaly():
    """The writes of two transactions are interleaved, in one order in each partition."""
    changed = history()
    first = Transaction(
        "feeder.1", 2, "feeder", 36, 38, 39, Outcome.OK, [Write(IN, "d1", 37, 9), Write(OUT, "d2", 37, 5)]
    )
    first.writes.append(Write(IN, "d3", 37, 11))
    second = Transaction(
        "mover.1", 1, "mover", 76, 78, 79, Outcome.OK, [Write(OUT, "e1", 77, 4), Write(IN, "e2", 77, 10)]
    )
    changed.transactions += [first, second]
    for partition, more in ((IN, {9: "d1", 10: "e2", 11: "d3"}), (OUT, {4: "e1", 5: "d2"})):
        rest = changed.rest[partition]
        rest.everything.update(more)
        rest.committed.update(more)
        rest.end = rest.stable = max(more) + 1
        for reader in changed.readers[: 1 if partition == OUT else 2]:
            reader.events += [Poll(95, [Record(partition, *one) for one in more.items()]), End(partition, rest.end)]
    assert check(changed) == []
    assert {found.kind for found in permitted(changed)} == PERMITTED
    assert list(permitted(history())) == []


def _plain(spoilt):
    """Two records of a producer that is not idempotent, the second before the first."""
    for value, offset in (("q1", 5), ("q2", 4)):
        write = Write(OUT, value, 100, offset)
        plain = Transaction("other", 0, None, 100, 100, 101, Outcome.OK, [write], is_idempotent=False)
        spoilt.transactions.append(plain)
    for values in (spoilt.rest[OUT].everything, spoilt.rest[OUT].committed):
        values.update({4: "q2", 5: "q1"})
    spoilt.rest[OUT].end = spoilt.rest[OUT].stable = 6
    spoilt.readers[0].events += [Poll(102, [Record(OUT, 4, "q2"), Record(OUT, 5, "q1")]), End(OUT, 6)]


def test_producers_that_are_not_idempotent_promise_neither_order_nor_once():
    changed = history()
    _plain(changed)
    assert check(changed) == []
    changed.transactions[-1].is_idempotent = changed.transactions[-2].is_idempotent = True
    assert kinds(changed) == {Kind.NONMONOTONIC_SEND}


def test_records_of_producers_that_are_not_idempotent_may_be_there_twice():
    changed = history()
    _plain(changed)
    for values in (changed.rest[OUT].everything, changed.rest[OUT].committed):
        values[6] = "q1"
    changed.rest[OUT].end = changed.rest[OUT].stable = 7
    changed.readers[0].events += [Poll(103, [Record(OUT, 6, "q1")]), End(OUT, 7)]
    assert check(changed) == []
    changed.transactions[-2].is_idempotent = True
    assert Kind.DUPLICATE in kinds(changed)


# -- planted in random histories -------------------------------------------------------------------------------------


def spoil_a_reader(spoilt: History, rng: random.Random) -> set[Kind]:
    """Take a record away from a poll, or give it once more."""
    readers = [reader for reader in spoilt.readers if reader.name != "wanderer"]  # it may come again, and miss nothing
    polls = [each for reader in readers for each in reader.events if isinstance(each, Poll) and each.records]
    poll = rng.choice(polls)
    number = rng.randrange(len(poll.records))
    if rng.random() < 0.5:
        poll.records.insert(number, poll.records[number])
        return {Kind.NONMONOTONIC_POLL}
    del poll.records[number]
    return {Kind.POLL_SKIP}


def spoil_the_end(spoilt: History, rng: random.Random) -> set[Kind]:
    """Make a committed write invisible, or an aborted one visible."""
    transaction = rng.choice([each for each in spoilt.transactions if each.writes])
    write = rng.choice(transaction.writes)
    rest = spoilt.rest[write.partition]
    offset = next(offset for offset, value in rest.everything.items() if value == write.value)
    if rest.committed.pop(offset, None) is None:
        rest.committed[offset] = write.value
    return {Kind.LOST_WRITE, Kind.ABORTED_READ, Kind.TORN_TRANSACTION, Kind.POLL_SKIP}


@pytest.mark.parametrize("spoil", [spoil_a_reader, spoil_the_end])
def test_anomalies_planted_in_random_histories_are_found(spoil):
    for seed in range(100):
        spoilt = good_history(seed)
        wanted = spoil(spoilt, random.Random(seed))
        assert kinds(spoilt) & wanted, seed


# -- journals --------------------------------------------------------------------------------------------------------


def test_journals_contain_the_history(tmp_path):
    journal = Journal(tmp_path / "mover.1.jsonl")
    journal.note("init", "mover")
    journal.note("ready")
    for end in (("commit", "committed"), ("commit",), ("abort", "aborted"), ()):
        journal.note("begin")
        journal.note("input", "in", 0, 7, "a")
        journal.note("send", "out", 1, f"v{end}")
        journal.note("ack", f"v{end}", 3)
        journal.note("offsets", "group", [("in", 0, 8)])
        for word in end:
            journal.note(word)
    journal.close()
    plain = Journal(tmp_path / "plain.jsonl")
    for value in ("p", "q"):
        plain.note("plain")
        plain.note("send", "in", 0, value)
    plain.note("ack", "p", 9)
    plain.close()
    reader = Journal(tmp_path / "reader.jsonl")
    reader.note("read", True, True)
    reader.note("seek", "in", 0, 5)
    reader.note("poll", [("in", 0, 9, "p")])
    reader.note("end", "in", 0, 10)
    reader.note("reset", "in", 0)
    reader.note("position", "plain group", 5, [("in", 0, -1)])
    reader.note("kept", "plain group", [("in", 0, 9)])
    reader.close()
    with (tmp_path / "reader.jsonl").open("a") as file:
        file.write('[123, "po')  # killed
    told = read_journals(sorted(tmp_path.glob("*.jsonl")))
    assert [(start.client, start.transactional_id, start.outcome) for start in told.starts] == [
        ("mover.1", "mover", Outcome.OK)
    ]
    assert [each.outcome for each in told.transactions] == [
        Outcome.OK, Outcome.UNKNOWN, Outcome.FAIL, Outcome.FAIL, Outcome.OK, Outcome.UNKNOWN,
    ]  # fmt: skip
    first = told.transactions[0]
    assert first.inputs == [Record(IN, 7, "a")]
    assert first.offsets == {IN: 8}
    assert first.writes[0].offset == 3
    assert first.ended_ns > first.ending_ns > first.writes[0].sent_ns > first.began_ns
    assert told.positions == [Committed("plain group", IN, -1, 5)]
    assert [(each.group, each.partition, each.offset) for each in told.commits] == [("plain group", IN, 9)]
    (told_reader,) = told.readers
    assert [type(event) for event in told_reader.events] == [Seek, Poll, End, Reset]


def test_records_in_flight_when_the_epoch_rises_may_be_written_twice(tmp_path):
    """Not those that were acknowledged before, nor those of the next epoch. -1 is no epoch yet."""
    lines = [
        [5, "epoch", 5, -1],
        *([10 + n, *line] for n, value in enumerate("abc") for line in (("plain",), ("send", "in", 0, value))),
        [20, "ack", "a", 1],
        [31, "epoch", 30, 0],
        [40, "ack", "b", 2],
        [51, "epoch", 50, 1],
        [52, "ack", "c", 3],
        *([60, *line] for line in (("plain",), ("send", "in", 0, "d"), ("ack", "d", 4))),
        [71, "epoch", 70, 1],
    ]
    path = tmp_path / "plain.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    told = read_journals([path])
    assert [each.is_idempotent for each in told.transactions] == [True, False, False, True]


def test_a_report_has_the_lines_of_the_named_transactions_and_of_others_with_their_id(tmp_path):
    lines = {
        "mover.1": [
            [1, "init", "mover"], [2, "ready"],
            [10_000_000, "begin"], [11_000_000, "abort"],
            [20_000_000, "begin"], [21_000_000, "send", "out", 0, "v"], [30_000_000, "commit"],
            [40_000_000, "committed"], [50_000_000, "begin"],
        ],
        "mover.2": [[3, "init", "mover"], [25_000_000, "error", "fenced"], [60_000_000, "begin"]],
        "feeder": [[4, "init", "feeder"], [26_000_000, "begin"]],
    }  # fmt: skip
    for client, some in lines.items():
        (tmp_path / f"{client}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in some))
    told = read_journals(sorted(tmp_path.glob("*.jsonl")))
    found = anomaly(Kind.ZOMBIE, "late", operations=[of(told, "mover.1", 1), "group"])
    assert report(tmp_path, told, [found]).splitlines() == [
        "1 anomalies:",
        "zombie: late [operations mover.1/1 (ok), group]",
        '     0.0 mover.1 ["begin"]',
        '     5.0 mover.2 ["error", "fenced"]',
        '    10.0 mover.1 ["commit"]',
        '    20.0 mover.1 ["committed"]',
    ]
    assert report(tmp_path, told, [anomaly(Kind.UNSEEN, "gone")]) == "1 anomalies:\nunseen: gone []"
