"""What a transactional producer asks of whom, and what it makes of every answer; coordinators here are scripted."""

import asyncio
import random

import pytest

from client import errors
from client.consumer.group_metadata import ConsumerGroupMetadata
from client.errors import IllegalStateError, KafkaError, ProducerFencedError, UnsupportedApiError
from client.producer.producer import Producer
from client.producer.transaction_status import TransactionState
from client.topic_partition import TopicPartition
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.record_batch import read_batch
from support.fake_broker import APPLY_AND_CLOSE, CLOSE, STALL
from support.fake_coordinator import FakeCoordinator
from support.polling import until

INIT, ADD, PRODUCE, END = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.END_TXN,
)
ADD_GROUP, COMMIT_OFFSETS = ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT


@pytest.fixture
async def fake():
    async with FakeCoordinator({"t": 1, "many": 4}) as broker:
        yield broker


def producer(fake, **options):
    named = {"transactional_id": "id", "retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "random": random.Random(1)}
    return Producer(bootstrap_servers=fake.address, **(named | options))


def values(fake, topic="t", partition=0):
    return [record.value for record in fake.records(topic, partition)]


async def transact(sender, *records, offsets_of=None, error=None):
    """One transaction with these records: values, or (topic, value, partition)."""
    async with sender.transaction():
        for record in records:
            topic, value, partition = record if isinstance(record, tuple) else ("t", record, None)
            sender.send_nowait(topic, value, partition=partition)
        if offsets_of is not None:
            await sender.send_offsets({TopicPartition("t", 0): 1}, offsets_of)
        if error is not None:
            await sender.flush()
            raise error


def state(sender):
    return sender._transactions.status.state


async def test_a_transaction_is_added_to_written_and_ended(fake):
    async with producer(fake, transaction_timeout_ms=1234) as sender:
        await transact(sender, *(("many", b"%d" % partition, partition) for partition in range(4)))
    (init,) = fake.seen(INIT)
    assert (init.transactional_id, init.transaction_timeout_ms) == ("id", 1234)
    (add,) = fake.seen(ADD)
    (topic,) = add.v3_and_below_topics
    assert (topic.name, topic.partitions) == ("many", [0, 1, 2, 3])
    assert {request.transactional_id for request in fake.seen(PRODUCE)} == {"id"}
    (data,) = fake.logs["many", 2]
    batch = read_batch(data)
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1001, 0, 0)
    (end,) = fake.seen(END)
    assert (end.transactional_id, end.producer_id, end.producer_epoch, end.committed) == ("id", 1001, 0, True)


async def test_partitions_are_added_once_per_transaction_and_sequences_continue(fake):
    async with producer(fake) as sender:
        for _ in range(2):
            async with sender.transaction():
                await sender.send("t", b"a")
                await sender.send("t", b"b")
    assert len(fake.seen(ADD)) == 2
    assert [read_batch(data).base_sequence for data in fake.logs["t", 0]] == [0, 1, 2, 3]
    assert fake.ends == [True, True]


@pytest.mark.parametrize("commit", [True, False])
async def test_an_empty_transaction_sends_no_request(fake, commit):
    async with producer(fake) as sender:
        await sender.begin_transaction()
        await (sender.commit_transaction() if commit else sender.abort_transaction())
        await sender.begin_transaction()
    assert not fake.seen(END)


async def test_a_block_that_raises_aborts_and_propagates_its_error(fake):
    async with producer(fake) as sender:
        with pytest.raises(ZeroDivisionError):
            await transact(sender, b"x", error=ZeroDivisionError())
        assert fake.ends == [False]
        await transact(sender, b"y")
    assert fake.ends == [False, True]
    assert values(fake) == [b"x", b"y"]


async def test_an_abort_does_not_send_waiting_records(fake):
    async with producer(fake, linger_ms=60_000, delivery_timeout_ms=90_000) as sender:
        await sender.begin_transaction()
        await asyncio.gather(sender.send("t", b"x"), sender.flush())
        futures = [sender.send_nowait("t", b"y"), sender.send_nowait("nosuch", b"y")]
        await sender.abort_transaction()
        for future in futures:
            with pytest.raises(errors.TransactionAbortableError, match="is being aborted"):
                await future
    assert values(fake) == [b"x"]
    assert fake.ends == [False]


async def test_a_cancelled_block_aborts(fake):
    async with producer(fake) as sender:
        sent = asyncio.Event()

        async def block():
            async with sender.transaction():
                await sender.send("t", b"x")
                sent.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(block())
        await sent.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert fake.ends == [False]


@pytest.mark.parametrize("explicit", [True, False])
async def test_a_commit_cancelled_with_records_in_flight_can_be_aborted(fake, explicit):
    fake.script[PRODUCE] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000
    async with producer(fake) as sender:
        if explicit:
            await sender.begin_transaction()
            sender.send_nowait("t", b"x")
            ending = asyncio.ensure_future(sender.commit_transaction())
        else:
            ending = asyncio.ensure_future(transact(sender, b"x"))
        await until(lambda: fake.seen(PRODUCE), "the record")
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        if explicit:
            await sender.abort_transaction()
        assert fake.ends == [False]
        fake.script[PRODUCE].clear()
        await transact(sender, b"y")
    assert values(fake) == [b"y"]


async def test_a_failed_abort_is_noted_on_the_error_of_the_block(fake):
    fake.script[END] = [ErrorCode.PRODUCER_FENCED]
    async with producer(fake) as sender:
        with pytest.raises(ZeroDivisionError) as caught:
            await transact(sender, b"x", error=ZeroDivisionError())
        assert "the transaction was not aborted: transactional id id: PRODUCER_FENCED" in caught.value.__notes__


async def test_calls_in_the_wrong_state_are_refused(fake):
    sender = producer(fake)
    with pytest.raises(IllegalStateError, match="begin_transaction: the producer has not been started"):
        await sender.begin_transaction()
    async with sender:
        with pytest.raises(IllegalStateError, match=r"send: no transaction is open: begin_transaction\(\) opens one"):
            sender.send_nowait("t", b"x")
        with pytest.raises(IllegalStateError, match="send: no transaction"):
            await sender.send("t", b"x")
        with pytest.raises(IllegalStateError, match="send_offsets: no transaction"):
            await sender.send_offsets({TopicPartition("t", 0): 1}, "group")
        for call in (sender.commit_transaction, sender.abort_transaction):
            with pytest.raises(IllegalStateError, match="_transaction: no transaction is open"):
                await call()
        await sender.begin_transaction()
        with pytest.raises(IllegalStateError, match="begin_transaction: a transaction is open"):
            await sender.begin_transaction()
        await sender.send("t", b"x")
    assert fake.ends == [False]  # closed in the middle
    async with producer(fake, transactional_id=None) as sender:
        with pytest.raises(IllegalStateError, match="no transactional_id"):
            await sender.begin_transaction()


async def test_a_record_that_fails_makes_the_commit_fail_and_abort(fake):
    fake.script[PRODUCE] = [ErrorCode.NONE, ErrorCode.INVALID_RECORD]
    async with producer(fake, batch_size=1) as sender:
        with pytest.raises(errors.InvalidRecordError):
            await transact(sender, b"a", b"b")
        assert fake.ends == [False]
        await transact(sender, b"c")
    assert fake.ends == [False, True]
    # Nobody knows how far the numbers were used: another epoch.
    assert [(one.producer_id, one.producer_epoch) for one in fake.seen(INIT)] == [(-1, -1), (1001, 0)]
    assert [read_batch(data).producer_epoch for data in fake.logs["t", 0]] == [0, 1]


async def test_after_an_abortable_error_only_an_abort_is_allowed(fake):
    fake.script[PRODUCE] = [ErrorCode.INVALID_RECORD]
    async with producer(fake) as sender:
        await sender.begin_transaction()
        waiting = [sender.send_nowait("t", b"a"), sender.send_nowait("nosuch", b"a")]
        with pytest.raises(errors.InvalidRecordError):
            await waiting[0]
        with pytest.raises(errors.InvalidRecordError):
            await waiting[1]
        with pytest.raises(errors.InvalidRecordError):
            await sender.send("t")
        with pytest.raises(errors.InvalidRecordError):
            await sender.send_offsets({TopicPartition("t", 0): 1}, "group")
        await sender.abort_transaction()
        async with sender.transaction():
            await sender.send("t", b"b")
    assert values(fake) == [b"b"]


@pytest.mark.parametrize("where", ["topic", "partition", "partitioner", "timeout"])
async def test_a_record_that_cannot_be_sent_fails_the_transaction(fake, where):
    options = {"max_block_ms": 30} if where in ("topic", "partition") else {}
    if where == "partitioner":
        options["partitioner"] = lambda key, partitions, available: 1 // 0
    if where == "timeout":
        options["delivery_timeout_ms"] = 50
        fake.script[PRODUCE] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000
    async with producer(fake, **options) as sender:
        records = {"topic": [("nosuch", b"x", None)], "partition": [("t", b"x", 9), ("t", b"behind it", 0)]}
        with pytest.raises(KafkaError, match=r"nosuch|no partition 9|ZeroDivisionError|not acknowledged within"):
            await transact(sender, *records.get(where, [b"x"]))
        assert state(sender) is TransactionState.READY
        assert True not in fake.ends


# -- errors of the coordinator ----------------------------------------------------------------------------------------

RETRIED = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    CLOSE,
    APPLY_AND_CLOSE,
]


@pytest.mark.parametrize("trouble", RETRIED, ids=str)
@pytest.mark.parametrize(
    "api", [ApiKey.FIND_COORDINATOR, INIT, ADD, ADD_GROUP, COMMIT_OFFSETS, END], ids=lambda a: a.name
)
async def test_retriable_errors_are_retried(fake, api, trouble):
    fake.script[api] = [trouble, trouble]
    async with producer(fake) as sender:
        await transact(sender, b"x", offsets_of="group")
    assert len(fake.seen(api)) >= 3
    assert values(fake) == [b"x"]
    assert True in fake.ends


FATAL, ABORTABLE = TransactionState.FATAL_ERROR, TransactionState.ABORTABLE_ERROR
VERDICTS = [
    (ADD, ErrorCode.PRODUCER_FENCED, FATAL),
    (ADD, ErrorCode.INVALID_PRODUCER_EPOCH, FATAL),
    (ADD, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL),
    (ADD, ErrorCode.INVALID_TXN_STATE, FATAL),
    (ADD, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ABORTABLE),
    (ADD, ErrorCode.UNKNOWN_PRODUCER_ID, ABORTABLE),
    (ADD, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ABORTABLE),
    (ADD, ErrorCode.TRANSACTION_ABORTABLE, ABORTABLE),
    (ADD, ErrorCode.INVALID_TOPIC_EXCEPTION, ABORTABLE),
    (PRODUCE, ErrorCode.PRODUCER_FENCED, FATAL),
    (PRODUCE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, FATAL),
    (PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH, ABORTABLE),
    (PRODUCE, ErrorCode.INVALID_TXN_STATE, ABORTABLE),
    (PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ABORTABLE),
    (PRODUCE, ErrorCode.UNKNOWN_PRODUCER_ID, ABORTABLE),
    (PRODUCE, ErrorCode.MESSAGE_TOO_LARGE, ABORTABLE),
    (ADD_GROUP, ErrorCode.INVALID_PRODUCER_EPOCH, FATAL),
    (ADD_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, ABORTABLE),
    (ADD_GROUP, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ABORTABLE),
    (ADD_GROUP, ErrorCode.INVALID_REQUEST, FATAL),
    (COMMIT_OFFSETS, ErrorCode.PRODUCER_FENCED, FATAL),
    (COMMIT_OFFSETS, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, FATAL),
    (COMMIT_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, ABORTABLE),
    (COMMIT_OFFSETS, ErrorCode.FENCED_INSTANCE_ID, ABORTABLE),
    (COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, ABORTABLE),
    (COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION, ABORTABLE),
    (END, ErrorCode.PRODUCER_FENCED, FATAL),
    (END, ErrorCode.INVALID_TXN_STATE, FATAL),
    (END, ErrorCode.UNKNOWN_SERVER_ERROR, FATAL),
    (END, ErrorCode.TRANSACTION_ABORTABLE, ABORTABLE),
    (END, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ABORTABLE),
]


@pytest.mark.parametrize(("api", "code", "verdict"), VERDICTS, ids=lambda one: getattr(one, "name", str(one)))
async def test_fatal_and_abortable_errors(fake, api, code, verdict):
    fake.script[api] = [code]
    expected = code
    if code == ErrorCode.INVALID_PRODUCER_EPOCH and api != PRODUCE:
        expected = ErrorCode.PRODUCER_FENCED
    async with producer(fake) as sender:
        with pytest.raises(KafkaError) as caught:
            await transact(sender, b"x", offsets_of="group")
        assert caught.value.code == expected
        assert True not in fake.ends
        if verdict is FATAL:
            assert state(sender) is FATAL
            for call in (sender.begin_transaction, sender.abort_transaction, lambda: sender.send("t")):
                with pytest.raises(KafkaError) as again:
                    await call()
                assert again.value.code == expected
        else:
            await transact(sender, b"y")
            assert fake.ends[-1] is True
            assert values(fake)[-1] == b"y"


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TRANSACTION_TIMEOUT, ErrorCode.PRODUCER_FENCED])
async def test_init_producer_id_may_be_refused(fake, code):
    fake.script[INIT] = [code]
    with pytest.raises(KafkaError, match=f"transactional id id: {code.name}"):
        async with producer(fake):
            pass


async def test_an_unknown_producer_id_gets_a_new_epoch_without_end_txn(fake):
    fake.script[END] = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    async with producer(fake) as sender:
        with pytest.raises(errors.InvalidPidMappingError):
            await transact(sender, b"x")
    assert len(fake.seen(END)) == 1
    assert [(one.producer_id, one.producer_epoch) for one in fake.seen(INIT)] == [(-1, -1), (1001, 0)]


async def test_a_broker_without_epoch_bump_ends_the_producer(fake):
    """Before KIP-360: a new epoch without the old one named would fence whoever has come after us."""
    fake.versions[INIT] = (0, 2)
    fake.script[PRODUCE] = [ErrorCode.INVALID_RECORD]
    async with producer(fake) as sender:
        with pytest.raises(errors.InvalidRecordError):
            await transact(sender, b"x")
        with pytest.raises(UnsupportedApiError, match="KIP-360"):
            await sender.begin_transaction()


async def test_old_versions_of_all_requests(fake):
    for api in (INIT, ADD, ADD_GROUP, COMMIT_OFFSETS, END, ApiKey.FIND_COORDINATOR):
        fake.versions[api] = (0, 1)
    fake.versions[PRODUCE] = (0, 3)
    async with producer(fake) as sender:
        await transact(sender, b"x", offsets_of="group")
        with pytest.raises(UnsupportedApiError, match=r"member_id|generation_id"):
            await transact(sender, offsets_of=ConsumerGroupMetadata("group", 3, "member"))
    assert fake.ends == [True]


async def test_add_partitions_uses_the_version_for_producers(fake):
    """From 4 on brokers speak it to each other."""
    seen = []

    def note(request, version):
        seen.append(version)
        return fake._add_partitions_to_txn(request, version, ErrorCode.NONE)

    fake.script[ADD] = [note]
    async with producer(fake) as sender, sender.transaction():
        await sender.send("t", b"x")
    assert seen == [3]


async def test_txn_offset_commit_contains_group_member_and_generation(fake):
    from client.consumer.group_metadata import OffsetAndMetadata

    async with producer(fake) as sender, sender.transaction():
        offsets = {TopicPartition("t", 0): OffsetAndMetadata(7, 2, "note"), TopicPartition("many", 1): 9}
        await sender.send_offsets(offsets, ConsumerGroupMetadata("group", 3, "member", "instance"))
        await sender.send_offsets(offsets, "group")
        await sender.send_offsets({}, "nobody")
    (added,) = fake.seen(ADD_GROUP)
    assert added.group_id == "group"
    first, second = fake.seen(COMMIT_OFFSETS)
    assert (first.generation_id, first.member_id, first.group_instance_id) == (3, "member", "instance")
    assert (second.generation_id, second.member_id, second.group_instance_id) == (-1, "", None)
    found = {
        (topic.name, part.partition_index): (
            part.committed_offset,
            part.committed_leader_epoch,
            part.committed_metadata,
        )
        for topic in first.topics
        for part in topic.partitions
    }
    assert found == {("t", 0): (7, 2, "note"), ("many", 1): (9, -1, "")}
    assert fake.ends == [True]


async def test_a_moved_coordinator_is_found():
    first = FakeCoordinator({"t": 1}, node_id=1)
    second = FakeCoordinator(first.topics, node_id=2, cluster=first.cluster)
    first.cluster.append(second)
    async with first, second:
        for broker in (first, second):
            broker.leaders["t", 0] = 1
            broker.coordinator = 1
        async with producer(first) as sender:
            async with sender.transaction():
                await sender.send("t", b"x")
                first.script[END] = [ErrorCode.NOT_COORDINATOR]
                first.coordinator = second.coordinator = 2
            async with sender.transaction():
                await sender.send("t", b"y")
    assert (first.ends, second.ends) == ([], [True, True])


async def test_a_timed_out_commit_can_be_retried(fake):
    async with producer(fake, max_block_ms=40) as sender:
        await sender.begin_transaction()
        await sender.send("t", b"x")
        fake.script[END] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await sender.commit_transaction()
        with pytest.raises(IllegalStateError, match="being committed"):
            await sender.abort_transaction()
        with pytest.raises(IllegalStateError, match="being committed"):
            sender.send_nowait("t", b"x")
        fake.script[END].clear()
        await sender.commit_transaction()
        await sender.begin_transaction()
    assert fake.ends == [True]


async def test_a_timed_out_abort_can_be_retried(fake):
    async with producer(fake, max_block_ms=40) as sender:
        await sender.begin_transaction()
        await sender.send("t", b"x")
        fake.script[END] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await sender.abort_transaction()
        with pytest.raises(IllegalStateError, match="being aborted"):
            await sender.commit_transaction()
        fake.script[END].clear()
        await sender.abort_transaction()
    assert fake.ends == [False]


async def test_partitions_that_may_have_been_added_are_aborted(fake):
    """The answer was lost until time was up: an abort makes sure, and does not mind that there is nothing."""
    fake.script[ADD] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000
    fake.script[END] = [ErrorCode.INVALID_TXN_STATE]
    async with producer(fake, max_block_ms=40) as sender:
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await transact(sender, b"x")
        assert state(sender) is TransactionState.READY
        assert len(fake.seen(END)) == 1


async def test_an_abort_waits_for_partitions_that_are_being_added(fake):
    """Else they could come after the end, and open a transaction that nobody ends."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def later(request, version):
        asked.set()
        await go_on.wait()
        return fake._add_partitions_to_txn(request, version, ErrorCode.NONE)

    fake.script[ADD] = [later]
    async with producer(fake) as sender:
        await sender.begin_transaction()
        future = sender.send_nowait("t", b"x")
        await asked.wait()
        aborting = asyncio.ensure_future(sender.abort_transaction())
        with pytest.raises(errors.TransactionAbortableError):
            await future
        assert not fake.seen(END)
        assert not aborting.done()
        go_on.set()
        await aborting
    assert fake.ends == [False]
    assert values(fake) == []


async def test_an_abort_waits_for_records_in_flight_and_does_not_resend_them(fake):
    produce, answers = fake._produce, []
    fake._produce = lambda *arguments: STALL
    async with producer(fake) as sender:
        await sender.begin_transaction()
        future = sender.send_nowait("t", b"x")
        await until(lambda: fake.seen(PRODUCE), "the record")
        aborting = asyncio.ensure_future(sender.abort_transaction())
        await until(lambda: state(sender) is TransactionState.ABORTING, "the abort")
        assert not fake.seen(END)
        fake._produce = produce
        fake.drop_connections()
        await aborting
        with pytest.raises(errors.ConnectionLostError):
            await future
    assert answers == []
    assert len(fake.seen(PRODUCE)) == 1
    assert fake.ends == [False]
    assert fake.seen(INIT)[-1].producer_epoch == 0  # it may come yet: shut out


async def test_offsets_that_were_cancelled_are_not_committed(fake):
    asked = asyncio.Event()

    def stall(request, version):
        asked.set()
        return STALL

    fake.script[COMMIT_OFFSETS] = [stall]
    async with producer(fake) as sender:
        await sender.begin_transaction()
        task = asyncio.ensure_future(sender.send_offsets({TopicPartition("t", 0): 1}, "group"))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        fake.drop_connections()
        with pytest.raises(IllegalStateError, match="its offsets may be missing"):
            await sender.commit_transaction()
    assert fake.ends == [False]


async def test_a_fenced_producer_fails_waiting_records(fake):
    fake.script[ADD] = [ErrorCode.PRODUCER_FENCED]
    async with producer(fake, buffer_memory=2000) as sender:
        await sender.begin_transaction()
        futures = [asyncio.ensure_future(sender.send("t", bytes(900))) for _ in range(4)]
        for done in await asyncio.gather(*futures, return_exceptions=True):
            assert isinstance(done, ProducerFencedError)
        assert sender._memory.used == 0


@pytest.mark.parametrize("options", [{"acks": 1}, {"enable_idempotence": False}, {"transactional_id": ""}])
def test_options_that_conflict_with_transactions(options):
    with pytest.raises(errors.InvalidOptionError, match="transactional_id="):
        Producer(**({"transactional_id": "id"} | options))
