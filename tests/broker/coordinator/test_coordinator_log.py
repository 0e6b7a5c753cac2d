"""Writes of a coordinator: when they are applied, and what their outcome is."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace

import pytest
import pytest_asyncio

from broker.coordinator.coordinator_log import NO_OFFSET, Appended, CoordinatorLog
from broker.coordinator.group_partitions import GroupPartitions
from protocol.error_codes import ErrorCode
from protocol.record_batch_builder import RecordBatchBuilder
from support.groups import find_group
from support.held_commits import hold, let_go, resign
from support.wire import wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
_NUMBERS = itertools.count(1)
TIMEOUT_MS = 60_000


class Writer:
    """Writes to the partition of a key, and notes what is called."""

    def __init__(self, broker, key):
        self.broker = broker
        self.log = broker.services.coordination.group_log
        self.partition = self.log.partition_for(key)
        self.key = key
        self.events = []

    def write(self, name, *, timeout_ms=TIMEOUT_MS, term=None):
        builder = RecordBatchBuilder()
        builder.append(0, b"\0\x63" + name.encode(), b"")  # a record of an unknown kind: readers skip it
        return self.log.write(
            self.partition,
            self.log.term_of(self.partition) if term is None else term,
            builder.build(),
            timeout_ms,
            lambda appended: self.finished(name, appended),
            in_log=lambda _: self.events.append(f"{name} is in the log"),
        )

    def finished(self, name, appended):
        self.events.append((name, appended.error))
        return appended


@pytest_asyncio.fixture(loop_scope="module")
async def writer(broker):
    key = f"g-{next(_NUMBERS)}"
    async with wire_client(broker.bootstrap_servers) as client:
        await find_group(client.call, key)
    return Writer(broker, key)


async def test_a_write_that_is_committed_at_once_needs_no_wait(writer):
    answer = writer.write("a")
    assert answer.done()
    assert answer.result().error is ErrorCode.NONE
    assert answer.result().base_offset >= 0
    assert writer.events == ["a is in the log", ("a", ErrorCode.NONE)]


async def test_writes_are_applied_in_the_order_of_their_commits_even_if_nobody_waits_for_them(broker, writer):
    partition = hold(broker, writer.log, writer.key)
    abandoned, waiting = writer.write("a"), writer.write("b")
    assert writer.events == ["a is in the log", "b is in the log"]
    abandoned.cancel()
    let_go(broker, partition)
    assert (await waiting).error is ErrorCode.NONE
    assert writer.events[2:] == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]


async def test_a_write_that_is_committed_at_once_is_applied_after_those_before_it(broker, writer):
    partition = hold(broker, writer.log, writer.key)
    first = writer.write("a")
    let_go(broker, partition)  # committed, but the event loop has not applied it yet
    second = writer.write("b")
    assert (await second).error is (await first).error is ErrorCode.NONE
    assert writer.events[2:] == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]


async def test_a_write_of_another_term_is_refused(writer):
    answer = writer.write("a", term=-5)
    assert answer.result() == Appended(ErrorCode.NOT_COORDINATOR, NO_OFFSET)
    assert writer.events == [("a", ErrorCode.NOT_COORDINATOR)]


async def test_a_write_that_is_not_committed_in_its_term_is_answered_with_not_coordinator(broker, writer):
    partition = hold(broker, writer.log, writer.key)
    sync = partition.sync
    answer = writer.write("a")
    resign(broker, partition)
    assert (await answer).error is ErrorCode.NOT_COORDINATOR
    partition.sync = sync
    broker.services.replicas.role_changed((partition.topic, partition.partition))
    let_go(broker, partition)


async def test_the_end_of_the_term_takes_precedence_over_a_commit_that_is_not_applied_yet(broker, writer):
    partition = hold(broker, writer.log, writer.key)
    answer = writer.write("a")
    let_go(broker, partition)  # the outcome is known, and is not applied yet
    sync = partition.sync
    resign(broker, partition)
    assert (await answer).error is ErrorCode.NOT_COORDINATOR
    partition.sync = sync
    broker.services.replicas.role_changed((partition.topic, partition.partition))


async def test_a_commit_that_takes_too_long_has_timed_out(broker, writer):
    partition = hold(broker, writer.log, writer.key)
    assert (await writer.write("a", timeout_ms=1)).error is ErrorCode.REQUEST_TIMED_OUT
    let_go(broker, partition)


async def test_an_error_of_a_change_is_raised_where_its_answer_is_awaited(broker, writer):
    partition = hold(broker, writer.log, writer.key)

    def fail(name, appended):
        raise ValueError(name)

    writer.finished = fail
    answer = writer.write("a")
    let_go(broker, partition)
    with pytest.raises(ValueError, match="a"):
        await answer


class Roles:
    """What a log asks of a ReplicaManager about roles: this broker leads both partitions."""

    def __init__(self):
        self.partitions = {("t", number): SimpleNamespace(is_leader=True, leader_epoch=3) for number in range(2)}

    def observe(self, topic, changed):
        self.changed = changed


def led(roles):
    return CoordinatorLog(
        "t",
        default_partitions=2,
        load_buffer_bytes=1024,
        replicas=roles,
        metadata=None,
        topics=None,
        rng=random.Random(1),
    )


async def test_a_closed_log_has_no_terms_and_hears_of_no_more_changes():
    """A log directory that fails while the broker stops ends the leadership of its partitions once more."""
    roles, heard = Roles(), []
    log = led(roles)
    log.listen(lambda *term: heard.append(term), heard.append)
    assert heard == [(0, 3), (1, 3)]
    log.close()
    assert heard[2:] == [0, 1]
    roles.changed(0, False)
    roles.changed(1, True)
    assert heard[4:] == []
    assert [log.term_of(number) for number in range(2)] == [None, None]


async def test_closed_partitions_of_groups_hear_of_no_more_changes():
    roles = Roles()
    partitions = GroupPartitions(led(roles), now_ms=int, start_task=lambda work: work.close(), loaded=id, unload=id)
    partitions.listen()
    assert [partitions.by_number(number).term for number in range(2)] == [3, 3]
    partitions.close()
    roles.changed(0, False)
    roles.changed(1, True)
    assert [partitions.by_number(number) for number in range(2)] == [None, None]
