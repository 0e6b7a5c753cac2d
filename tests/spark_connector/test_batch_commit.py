"""The driver's part of exactly once: a batch is visible once and whole, wherever a driver dies."""

from __future__ import annotations

import itertools
import json
import logging

import pytest

from client.admin.admin import Admin
from client.errors import InvalidTxnStateError, KafkaError, ProducerFencedError
from client.producer.prepared_transaction import PreparedTransaction
from client.producer.producer import Producer
from spark_connector.batch_commit import abort_batch, commit_batch
from spark_connector.commit_ledger import KEY, CommitLedger, Decision
from spark_connector.errors import BatchError
from support.counts import count
from support.dying_driver import commit_and_die
from support.topic_contents import topic_contents

_NUMBERS = itertools.count(1)


class Query:
    """One query on one broker, whose batches are written by hand."""

    def __init__(self, bootstrap):
        number = next(_NUMBERS)
        self.bootstrap = bootstrap
        self.client = {"bootstrap_servers": bootstrap}
        self.prefix = f"query-{number}"
        self.topic = f"topic-{number}"
        self.id = f"id-{number}"

    async def write(self, run, *tasks, attempt=0, timeout_ms=60_000):
        """What tasks of a run (a number) write and hand over: each is a list of values."""
        found = []
        for place, values in enumerate(tasks):
            name = f"{self.prefix}-{run:012x}-{place}-{attempt}"
            async with Producer(**self.client, transactional_id=name, transaction_timeout_ms=timeout_ms) as producer:
                await producer.begin_transaction()
                for value in values:
                    producer.send_nowait(self.topic, value.encode(), partition=len(value) % 2)
                found.append(await producer.prepare_transaction())
        return found

    async def commit(self, batch, transactions, query=None):
        await commit_batch(self.client, self.prefix, query or self.id, batch, transactions)

    def visible(self, *, is_open=False):
        """What readers of committed data see, and, unless `is_open`, that nothing open holds them back."""
        return sorted(one.value.decode() for one in topic_contents(self.bootstrap, self.topic, is_open=is_open))

    async def last(self):
        async with Admin(**self.client) as admin, CommitLedger(self.client, self.prefix, admin) as ledger:
            return await ledger.last()

    async def open_transactions(self):
        async with Admin(**self.client) as admin:
            listed = await admin.list_transactions(states=["Ongoing"])
        return [one.transactional_id for one in listed if one.transactional_id.startswith(self.prefix)]


@pytest.fixture
def query(broker):
    return Query(broker.bootstrap)


async def test_a_batch_is_visible_once_it_is_committed(query):
    transactions = await query.write(1, ["a", "bb"], ["c"])
    assert query.visible(is_open=True) == []
    await query.commit(0, transactions)
    assert query.visible() == ["a", "bb", "c"]
    assert await query.last() == Decision(query.id, 0, tuple(transactions))


async def test_a_task_without_rows_has_no_transaction(query):
    assert await query.write(1, ["a"], []) == [PreparedTransaction(f"{query.prefix}-000000000001-0-0", *ANY), None]


class _Any:
    def __eq__(self, other):
        return isinstance(other, int)

    __hash__ = None


ANY = (_Any(), _Any())


async def test_batch_after_batch(query):
    for batch in range(20):
        await query.commit(batch, await query.write(1, [f"a{batch}"], [f"bb{batch}"]))
    assert len(query.visible()) == 40
    assert (await query.last()).batch == 19


async def test_a_repeated_batch_is_written_once_for_any_distribution_of_rows(query):
    await query.commit(3, await query.write(1, ["a", "bb"], ["c"]))
    await query.commit(3, await query.write(2, ["c"], ["a"], ["bb"]))
    await query.commit(3, [])
    assert query.visible() == ["a", "bb", "c"]
    assert await query.open_transactions() == []


async def test_the_same_commit_twice_changes_nothing(query):
    transactions = await query.write(1, ["a"], ["bb"])
    for _ in range(2):
        await query.commit(3, transactions)
    assert query.visible() == ["a", "bb"]


async def test_an_earlier_batch_is_not_written_again(query):
    await query.commit(3, await query.write(1, ["a"]))
    await query.commit(2, await query.write(2, ["b"]))
    assert query.visible() == ["a"]
    assert await query.open_transactions() == []


async def test_another_checkpoint_restarts_the_batch_numbers(query):
    await query.commit(3, await query.write(1, ["a"]))
    await query.commit(0, await query.write(2, ["b"]), query="another")
    assert query.visible() == ["a", "b"]


async def test_transactions_of_failed_attempts_are_aborted(query):
    await query.write(7, ["lost"], ["lost"], attempt=1)
    winners = await query.write(8, ["a"])
    await query.write(8, ["duplicate"], attempt=1)
    await query.commit(0, winners)
    assert await query.open_transactions() == []
    assert query.visible() == ["a"]


async def test_a_query_with_a_longer_name_is_not_touched(query):
    other = Query(query.bootstrap)
    other.prefix = f"{query.prefix}-b"
    theirs = await other.write(1, ["theirs"])
    await query.commit(0, await query.write(1, ["a"]))
    await other.commit(0, theirs)
    assert other.visible() == ["theirs"]


async def test_an_aborted_batch_leaves_no_open_transaction_and_can_be_repeated(query):
    await query.write(1, ["a"], ["b"])
    await abort_batch(query.client, query.prefix)
    assert await query.open_transactions() == []
    assert query.visible() == []
    await query.commit(0, await query.write(1, ["a"], ["b"]))
    assert query.visible() == ["a", "b"]


async def test_an_abort_does_not_affect_decided_batches(query):
    transactions = await query.write(1, ["a"], ["b"])
    async with Admin(**query.client) as admin, CommitLedger(query.client, query.prefix, admin) as ledger:
        await ledger.write(Decision(query.id, 0, tuple(transactions)))
    await abort_batch(query.client, query.prefix)
    assert len(await query.open_transactions()) == 2
    await query.commit(0, await query.write(2, ["b"], ["a"]))
    assert query.visible() == ["a", "b"]


async def test_a_timed_out_batch_is_refused_and_not_visible(query):
    late = await query.write(1, ["a"], timeout_ms=1)
    async with Admin(**query.client) as admin:
        await admin.end_transactions(late, commit=False)  # as the coordinator does when time is up
    others = await query.write(1, ["bb"], attempt=1)
    with pytest.raises(BatchError, match=r"1 of 2 transactions of the batch are no longer open .*-0-0"):
        await query.commit(0, [*late, *others])
    await abort_batch(query.client, query.prefix)
    assert query.visible() == []
    assert await query.last() is None


async def decide_and_lose(query, lost):
    """A driver dies after the decision, and the time of some transactions runs out before it is started again."""
    transactions = await query.write(1, ["a"], ["bb"])
    async with Admin(**query.client) as admin:
        async with CommitLedger(query.client, query.prefix, admin) as ledger:
            await ledger.write(Decision(query.id, 0, tuple(transactions)))
        await admin.end_transactions([transactions[place] for place in lost], commit=False)


async def test_a_decided_batch_that_is_completely_lost_is_written_again(query):
    await decide_and_lose(query, [0, 1])
    await query.commit(0, await query.write(2, ["bb"], ["a"]))
    assert query.visible() == ["a", "bb"]


async def test_a_decided_batch_that_is_partly_lost_is_an_error(query):
    await decide_and_lose(query, [1])
    for run in (2, 3):
        with pytest.raises(BatchError, match=r"batch 0 of query id-\d+ is visible in part: 1 of its 2 transactions"):
            await query.commit(0, await query.write(run, ["bb"], ["a"]))


async def test_the_driver_that_opened_the_ledger_last_decides(query):
    async with Admin(**query.client) as admin, CommitLedger(query.client, query.prefix, admin) as zombie:
        assert await zombie.last() is None
        stale = await query.write(1, ["a"])
        await query.commit(0, await query.write(2, ["a"]))
        with pytest.raises(ProducerFencedError):
            await zombie.write(Decision(query.id, 0, tuple(stale)))
    assert query.visible() == ["a"]


async def test_an_invalid_ledger_is_refused(query):
    async with Producer(**query.client) as producer:
        await producer.send(f"{query.prefix}-commits", b"{}", partition=0)
    with pytest.raises(BatchError, match=r"-commits-0@0 is not a ledger of this sink: it contains b'{}'"):
        await query.commit(0, await query.write(1, ["a"]))


async def test_the_last_decision_is_found_behind_many_openings(query):
    """Each of which that was aborted leaves a marker behind it."""
    decision = Decision(query.id, 5, ())
    async with Admin(**query.client) as admin:
        async with CommitLedger(query.client, query.prefix, admin) as ledger:
            await ledger.last()
            await ledger.write(decision)
        topic = f"{query.prefix}-commits"
        async with Producer(**query.client, transactional_id="aborts") as producer:
            for _ in range(20):
                await producer.begin_transaction()
                await producer.send(topic, b"not a decision", key=KEY, partition=0)
                await producer.abort_transaction()
    assert await query.last() == decision
    assert json.loads(decision.to_bytes()) == {"query": query.id, "batch": 5, "transactions": []}


async def test_a_handed_over_transaction_ends_once(query):
    (transaction,) = await query.write(1, ["a"])
    async with Admin(**query.client) as admin:
        for _ in range(2):
            assert await admin.end_transactions([transaction], commit=True) == {transaction: None}
        (error,) = (await admin.end_transactions([transaction], commit=False)).values()
        assert isinstance(error, InvalidTxnStateError)
        await query.write(1, ["b"])
        (error,) = (await admin.end_transactions([transaction], commit=True)).values()
        assert isinstance(error, ProducerFencedError)


async def test_a_commit_waits_for_a_broker_that_restarts(query, caplog):
    caplog.set_level(logging.ERROR)
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:9"):
        await commit_batch({"bootstrap_servers": "127.0.0.1:9", "delivery_timeout_ms": 300}, "p", "q", 0, [])


@pytest.mark.counted
async def test_a_driver_may_die_at_any_request(broker):
    """And then its batch, written anew with its rows distributed otherwise, is there once, as a whole."""
    step = count(6, 1)
    survived = False
    requests = 0
    while not survived:
        query = Query(broker.bootstrap)
        await query.commit(0, await query.write(1, ["first"]))
        transactions = await query.write(1, ["a1", "bbb1"], ["c1", "dd1"])
        survived = commit_and_die(requests, broker.bootstrap, query.prefix, query.id, 1, transactions)
        await query.commit(1, await query.write(2, ["c2"], ["a2"], ["bbb2", "dd2"]))
        seen = query.visible()
        whole = [sorted([f"a{run}", f"bbb{run}", f"c{run}", f"dd{run}", "first"]) for run in (1, 2)]
        assert seen in whole, f"killed instead of request {requests + 1}"
        assert not survived or seen == whole[0]
        assert await query.open_transactions() == []
        await query.commit(2, await query.write(2, ["next"]))
        assert "next" in query.visible()
        requests += step
    assert requests > 10
