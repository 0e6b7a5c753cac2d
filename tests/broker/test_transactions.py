"""Transactions as producers and readers of a live broker see them: requests, errors by version, markers, isolation."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from broker.coordinator.coordinator_log import Appended, settled
from broker.coordinator.transactions import coordinator
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from support.broker import running_broker
from support.deadlines import DEADLINE_S
from support.groups import commit as commit_offset
from support.groups import find_group
from support.held_commits import hold_partition, let_go
from support.polling import until
from support.transactions import (
    TransactionalProducer,
    again,
    committed,
    describe,
    offsets,
    until_state,
)
from support.wire import append, batch, create_topic, produce, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

_NUMBERS = itertools.count(1)


@pytest.fixture
def new(client):
    """Makes producers; the same transactional id where one is given."""

    def make(transactional_id: str | None = None, **options) -> TransactionalProducer:
        return TransactionalProducer(client.call, transactional_id or f"txn-{next(_NUMBERS)}", **options)

    return make


async def producers_of(client, topic: str, partition: int = 0):
    answer = await client.call(
        DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    )
    return answer.topics[0].partitions[0]


async def test_committed_records_are_visible_and_aborted_records_are_not(client, name, new):
    topic = name()
    await create_topic(client, topic, partitions=2)
    producer = new()
    await producer.begin()
    for number, commit in enumerate([True, False, False, True]):
        for partition in (0, 1):
            await producer.write(topic, b"%d-%d" % (number, partition), partition=partition)
        await producer.ended(commit)
    for partition in (0, 1):
        assert await committed(client.call, topic, partition) == [b"%d-%d" % (n, partition) for n in (0, 3)]
        last_stable, high_watermark = await offsets(client.call, topic, partition)
        assert last_stable == high_watermark == 8  # four records, four markers


async def test_an_open_transaction_blocks_committed_readers(client, name, new):
    topic = name()
    await create_topic(client, topic)
    slow, fast = new(), new()
    await slow.begin()
    await fast.begin()
    await append(client, topic, batch(b"plain"))
    await slow.write(topic, b"slow")
    await fast.write(topic, b"fast")
    await fast.ended(True)
    assert await committed(client.call, topic) == [b"plain"]
    assert await offsets(client.call, topic) == (1, 4)
    await slow.ended(True)
    assert await committed(client.call, topic) == [b"plain", b"slow", b"fast"]
    assert await offsets(client.call, topic) == (5, 5)


# -- epochs -----------------------------------------------------------------------------------------------------------


async def test_a_new_producer_fences_the_old_one(client, name, new):
    topic = name()
    await create_topic(client, topic)
    old = new()
    await old.begin()
    await old.write(topic, b"lost")
    second = new(old.transactional_id)
    assert await second.init() == ErrorCode.CONCURRENT_TRANSACTIONS  # the open transaction is aborted first
    await second.begin()
    assert (second.producer_id, second.producer_epoch) == (old.producer_id, old.producer_epoch + 2)
    assert await old.add(topic, 0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await old.add(topic, 0, version=2) == [ErrorCode.PRODUCER_FENCED]
    assert await old.end(True, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await old.end(True, version=2) == ErrorCode.PRODUCER_FENCED
    assert (await old.produce(topic, b"zombie")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    await second.write(topic, b"kept")
    assert (await old.produce(topic, b"zombie")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    await second.ended(True)
    assert await committed(client.call, topic) == [b"kept"]


async def test_init_producer_id_by_version(client, new):
    producer = new()
    await producer.begin()
    other = new(producer.transactional_id)
    for version, code in ((3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)):
        assert await other.init(version, producer.producer_id, producer.producer_epoch + 5) == code
        assert await other.init(version, producer.producer_id + 1, 0) == code
    for version in range(6):
        assert await other.init(version) == 0
    assert other.producer_epoch == producer.producer_epoch + 6
    assert await other.init(5, other.producer_id, other.producer_epoch) == 0  # KIP-360: it goes on
    assert other.producer_epoch == producer.producer_epoch + 7


async def test_init_producer_id_errors(broker, client, new):
    async def code(**fields) -> int:
        request = InitProducerIdRequest(**{"transactional_id": "refused", "transaction_timeout_ms": 1000} | fields)
        answer = await client.call(request)
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
        return answer.error_code

    await new("refused").begin()
    assert await code(transactional_id="") == ErrorCode.INVALID_REQUEST
    for timeout_ms in (0, -1, broker.config.transaction_max_timeout_ms + 1):
        assert await code(transaction_timeout_ms=timeout_ms) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await code(producer_id=5) == ErrorCode.INVALID_REQUEST
    assert await code(producer_epoch=5) == ErrorCode.INVALID_REQUEST


# -- partitions and the end -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_all_or_none(client, name, new, version):
    topic = name()
    await create_topic(client, topic, partitions=2)
    producer = new()
    await producer.begin()
    unknown = [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await producer.add(topic, 0, 7, version=version) == unknown
    assert await producer.end(True) == ErrorCode.INVALID_TXN_STATE  # nothing has begun
    assert await producer.add(topic, 0, 1, version=version) == [0, 0]
    found = await describe(client.call, producer.transactional_id)
    assert [(one.topic, one.partitions) for one in found.topics] == [(topic, [0, 1])]
    await producer.ended(False)


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_add_and_verify_for_several_at_once(client, name, new, version):
    topic = name()
    await create_topic(client, topic, partitions=2)
    one, other = new(), new()
    await one.begin()
    await other.begin()
    await one.added(topic, 0)

    def transaction(producer, partitions, *, verify_only, epoch=None):
        return AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch if epoch is None else epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=partitions)],
        )

    async def codes(*transactions) -> list[list[int]]:
        answer = await client.call(AddPartitionsToTxnRequest(transactions=list(transactions)), version)
        assert answer.error_code == 0
        found = {one.transactional_id: one.topic_results for one in answer.results_by_transaction}
        return [
            [one.partition_error_code for one in found[sent.transactional_id][0].results_by_partition]
            for sent in transactions
        ]

    abortable, fenced = ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.PRODUCER_FENCED
    assert await codes(
        transaction(one, [0, 1], verify_only=True), transaction(other, [1], verify_only=True, epoch=9)
    ) == [[0, abortable], [fenced]]
    assert await codes(transaction(one, [1], verify_only=False), transaction(other, [1], verify_only=False)) == [
        [0],
        [0],
    ]
    assert await codes(transaction(one, [0, 1], verify_only=True), transaction(other, [1], verify_only=True)) == [
        [0, 0],
        [0],
    ]
    nobody = new()
    assert await codes(transaction(nobody, [0], verify_only=True)) == [[ErrorCode.INVALID_PRODUCER_ID_MAPPING]]
    for producer in (one, other):
        await producer.ended(False)


@pytest.mark.parametrize("version", range(5))
async def test_offsets_of_a_group_are_a_partition_like_any_other(broker, client, new, version):
    producer = new()
    await producer.begin()

    async def add(group: str, epoch: int = producer.producer_epoch) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            group_id=group,
        )
        return (await client.call(request, version)).error_code

    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert await add("g", producer.producer_epoch + 1) == fenced
    assert await add("g") == 0
    partition = broker.services.coordination.group_log.partition_for("g")
    found = await describe(client.call, producer.transactional_id)
    assert [(one.topic, one.partitions) for one in found.topics] == [("__consumer_offsets", [partition])]
    await producer.ended(True)  # also where nobody has made that topic: it needs no marker


async def test_a_deleted_topic_needs_no_marker(broker, client, name, new):
    kept, deleted = name(), name()
    for topic in (kept, deleted):
        await create_topic(client, topic)
    producer = new()
    await producer.begin()
    await producer.write(kept, b"v")
    await producer.write(deleted, b"v")
    await broker.services.topics.delete(deleted)
    assert await broker.services.topics.wait_until_deleted(deleted, DEADLINE_S)
    await producer.ended(True)
    assert await committed(client.call, kept) == [b"v"]


@pytest.mark.parametrize("commit", [True, False])
async def test_end_txn_may_be_repeated_but_not_changed(client, name, new, commit):
    topic = name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    await producer.write(topic, b"v")
    await producer.ended(commit)
    assert await producer.end(commit) == 0
    assert await producer.end(not commit) == ErrorCode.INVALID_TXN_STATE
    assert await committed(client.call, topic) == ([b"v"] if commit else [])


async def test_the_next_transaction_waits_for_the_end_of_the_previous_one(broker, client, name, new, monkeypatch):
    topic = name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    with monkeypatch.context() as patient:
        patient.setattr(coordinator, "END_WAIT_S", DEADLINE_S)
        for _ in range(20):
            assert await producer.add(topic, 0) == [0]  # at the first attempt
            assert await producer.end(True) == 0
        assert await producer.add(topic, 0) == [0]
    transactions = broker.services.coordination.transactions
    sent = []
    monkeypatch.setattr(transactions._markers, "send", sent.append)
    assert await producer.end(True) == 0
    assert await producer.add(topic, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]  # a moment later
    monkeypatch.undo()
    transactions._markers.send(sent[0])
    assert await again(lambda: producer.end(True)) == 0
    assert transactions._ended == {}


async def test_an_end_that_cannot_be_noted_is_noted_later(broker, client, name, new, monkeypatch):
    topic = name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    await producer.added(topic, 0)
    await producer.write(topic, b"v")
    transactions = broker.services.coordination.transactions
    write, refused = transactions._log.write, []

    def unavailable(partition, term, records, timeout_ms, finish):
        if not transactions.describe(producer.transactional_id).is_decided or len(refused) == 2:
            return write(partition, term, records, timeout_ms, finish)
        refused.append(finish(Appended(ErrorCode.NOT_ENOUGH_REPLICAS, -1)))
        return settled(refused[-1])

    monkeypatch.setattr(transactions._log, "write", unavailable)
    assert await producer.end(True) == 0
    await until_state(client.call, producer.transactional_id, "CompleteCommit")
    assert refused == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert await committed(client.call, topic) == [b"v"]
    await producer.added(topic, 0)


# -- verification on append (KIP-890) ---------------------------------------------------------------------------------


async def test_records_outside_of_a_transaction_are_refused(client, name, new):
    topic = name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    refused = await producer.produce(topic, b"early", version=11)
    assert refused.error_code == ErrorCode.TRANSACTION_ABORTABLE
    refused = await producer.produce(topic, b"early", version=10)
    assert refused.error_code == ErrorCode.INVALID_TXN_STATE
    assert refused.error_message == "Partition was not added to the transaction"
    await producer.write(topic, b"v")
    await producer.ended(True)
    late = await producer.produce(topic, b"late")  # it would open a transaction that nobody ends
    assert late.error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert await offsets(client.call, topic) == (2, 2)


async def test_a_producer_unknown_to_the_coordinator_is_refused(client, name, new):
    topic = name()
    await create_topic(client, topic)
    stranger = new()
    stranger.producer_id, stranger.producer_epoch = 123_456, 0
    assert (await stranger.produce(topic, b"v")).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await offsets(client.call, topic) == (0, 0)


async def test_a_batch_for_an_ending_transaction_gets_a_retriable_error(broker, client, name, new, monkeypatch):
    topic = name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    await producer.write(topic, b"v")
    transactions = broker.services.coordination.transactions
    monkeypatch.setattr(transactions._markers, "send", lambda ending: None)
    assert await producer.end(True) == 0
    other = name()
    await create_topic(client, other)
    answer = await producer.produce(other, b"v")
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "CONCURRENT_TRANSACTIONS" in answer.error_message
    monkeypatch.undo()
    term, transaction = transactions._known(producer.transactional_id)
    transaction.cancel()
    transactions._carry_out(term, transaction)
    assert await until_state(client.call, producer.transactional_id, "CompleteCommit")


async def test_a_request_of_two_producers_is_refused(client, name, new):
    topic = name()
    await create_topic(client, topic, partitions=2)
    request = produce(topic, bytes(batch(b"v", producer_id=5, producer_epoch=0, sequence=0, transactional=True)))
    request.transactional_id = "x"
    second = produce(topic, bytes(batch(b"v", producer_id=6, producer_epoch=0, sequence=0, transactional=True)), 1)
    request.topic_data[0].partition_data += second.topic_data[0].partition_data
    answer = await client.call(request, 11)
    codes = [one.error_code for one in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


# -- markers ----------------------------------------------------------------------------------------------------------


def marker(producer, topic: str, *partitions: int, commit: bool = True, epoch: int = 0) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))],
        coordinator_epoch=epoch,
    )


@pytest.mark.parametrize("version", [0, 1])
async def test_markers_written_by_an_administrator(client, name, new, version):
    """What `kafka-transactions.sh abort` does to a transaction that hangs."""
    topic = name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    await producer.write(topic, b"hangs")
    assert (await producers_of(client, topic)).active_producers[0].current_txn_start_offset == 0

    async def write(*markers) -> list[list[int]]:
        answer = await client.call(WriteTxnMarkersRequest(markers=list(markers)), version)
        return [[one.error_code for one in found.topics[0].partitions] for found in answer.markers]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await write(marker(producer, topic, 0, 5, commit=False, epoch=7)) == [[0, unknown]]
    (state,) = (await producers_of(client, topic)).active_producers
    assert (state.current_txn_start_offset, state.coordinator_epoch) == (-1, 7)
    assert await write(marker(producer, topic, 0, epoch=6)) == [[ErrorCode.TRANSACTION_COORDINATOR_FENCED]]
    producer.producer_epoch -= 1
    assert await write(marker(producer, topic, 0, epoch=7)) == [
        [ErrorCode.INVALID_PRODUCER_EPOCH if producer.producer_epoch >= 0 else ErrorCode.INVALID_REQUEST]
    ]
    assert await committed(client.call, topic) == []
    assert await offsets(client.call, topic) == (2, 2)
    assert await write() == []


# -- what there is ----------------------------------------------------------------------------------------------------


async def test_list_and_describe(client, name, new):
    topic = name()
    await create_topic(client, topic)
    producer, idle = new("listed-a", timeout_ms=12_345), new("listed-b")
    for one in (producer, idle):
        await one.begin()
    await producer.write(topic, b"v")
    found = await describe(client.call, "listed-a")
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 12_345)
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.producer_epoch)
    assert found.transaction_start_time_ms > 0

    async def listed(version: int = 1, **filters) -> dict[str, str]:
        answer = await client.call(ListTransactionsRequest(**filters), version)
        assert answer.error_code == 0
        return {
            one.transactional_id: one.transaction_state
            for one in answer.transaction_states
            if one.transactional_id.startswith("listed-")
        }

    for version in (0, 1):
        assert await listed(version) == {"listed-a": "Ongoing", "listed-b": "Empty"}
        assert await listed(version, state_filters=["Ongoing"]) == {"listed-a": "Ongoing"}
        assert await listed(version, producer_id_filters=[idle.producer_id]) == {"listed-b": "Empty"}
    assert await listed(duration_filter=3_600_000) == {"listed-b": "Empty"}  # as Kafka: it has no start
    answer = await client.call(ListTransactionsRequest(state_filters=["Ongoing", "Sleeping"]))
    assert answer.unknown_state_filters == ["Sleeping"]
    answer = await client.call(DescribeTransactionsRequest(transactional_ids=["nobody", ""]))
    codes = [one.error_code for one in answer.transaction_states]
    assert codes == [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]
    await producer.ended(True)
    assert (await listed())["listed-a"] == "CompleteCommit"


async def test_producers_of_partitions(client, name, new):
    topic = name()
    await create_topic(client, topic)
    assert (await producers_of(client, topic)).active_producers == []
    producer = new()
    await producer.begin()
    await producer.write(topic, b"1", b"2", b"3")
    (state,) = (await producers_of(client, topic)).active_producers
    assert (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.producer_epoch)
    assert (state.last_sequence, state.current_txn_start_offset, state.coordinator_epoch) == (2, 0, -1)
    await producer.ended(True)
    (state,) = (await producers_of(client, topic)).active_producers
    assert (state.last_sequence, state.current_txn_start_offset) == (2, -1)
    assert state.coordinator_epoch >= 0
    assert (await producers_of(client, topic, 4)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await producers_of(client, "no such topic")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_blocks_of_producer_ids(broker, client):
    epoch = broker.services.broker_epoch
    blocks = []
    for _ in range(2):
        answer = await client.call(AllocateProducerIdsRequest(broker_id=0, broker_epoch=epoch))
        assert (answer.error_code, answer.producer_id_len) == (0, 1000)
        blocks.append(answer.producer_id_start)
    assert blocks[1] == blocks[0] + 1000
    stale = AllocateProducerIdsRequest(broker_id=0, broker_epoch=epoch - 1)
    assert (await client.call(stale)).error_code == ErrorCode.STALE_BROKER_EPOCH
    unknown = AllocateProducerIdsRequest(broker_id=9, broker_epoch=epoch)
    assert (await client.call(unknown)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_every_producer_has_its_own_id(client, new):
    seen = set()
    for _ in range(20):
        producer = new()
        await producer.begin()
        seen.add(producer.producer_id)
        plain = await client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000))
        seen.add(plain.producer_id)
    assert len(seen) == 40


async def test_a_broker_that_is_not_the_coordinator_refuses(broker, client, new, monkeypatch):
    producer = new()
    await producer.begin()
    transactions = broker.services.coordination.transactions
    partition = broker.services.coordination.transaction_log.partition_for(producer.transactional_id)
    term = transactions._terms[partition]
    term.is_loading = True
    assert await producer.end(True) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await producer.init() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answer = await client.call(ListTransactionsRequest())
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    term.is_loading = False
    monkeypatch.delitem(transactions._terms, partition)
    assert await producer.end(True) == ErrorCode.NOT_COORDINATOR
    assert await producer.init() == ErrorCode.NOT_COORDINATOR
    assert (
        await client.call(DescribeTransactionsRequest(transactional_ids=[producer.transactional_id]))
    ).transaction_states[0].error_code == ErrorCode.NOT_COORDINATOR
    monkeypatch.undo()
    assert await again(producer.init) == 0


# -- offsets ----------------------------------------------------------------------------------------------------------


async def commit_offsets(
    client, producer, group: str, topic: str, offset: int, version: int = 4, metadata: str = ""
) -> int:
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id=-1,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0,
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        committed_metadata=metadata,
                    )
                ],
            )
        ],
    )
    return (await client.call(request, version)).topics[0].partitions[0].error_code


async def committed_offset(client, group: str, topic: str) -> tuple[int, int]:
    """(offset, error code), of what is decided."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
            )
        ],
        require_stable=True,
    )
    found = (await client.call(request, 8)).groups[0].topics[0].partitions[0]
    return found.committed_offset, found.error_code


async def with_offsets(client, producer, group: str) -> None:
    """The group's coordinator is there, and its partition in the transaction."""

    async def find() -> int:
        answer = await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 5)
        return answer.coordinators[0].error_code

    async def add() -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=group,
        )
        return (await client.call(request)).error_code

    assert await again(find) == 0
    assert await again(add) == 0


async def test_offsets_become_visible_when_the_transaction_commits(client, name, new):
    topic, group = name(), name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    for offset, commit in ((5, True), (9, False), (7, True)):
        await with_offsets(client, producer, group)
        before = await committed_offset(client, group, topic)
        assert await again(lambda: commit_offsets(client, producer, group, topic, offset)) == 0  # noqa: B023
        assert (await committed_offset(client, group, topic))[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        await producer.ended(commit)
        assert await committed_offset(client, group, topic) == ((offset, 0) if commit else before)


async def test_offsets_with_too_much_metadata_are_refused(client, name, new):
    topic, group = name(), name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    await with_offsets(client, producer, group)
    refused = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await again(lambda: commit_offsets(client, producer, group, topic, 1, metadata="x" * 4097)) == refused
    await producer.ended(True)
    assert await committed_offset(client, group, topic) == (-1, 0)


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)])
async def test_offsets_outside_of_a_transaction_are_refused(client, name, new, version, code):
    topic, group = name(), name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    await with_offsets(client, producer, group)
    assert await again(lambda: commit_offsets(client, producer, group, topic, 1)) == 0
    await producer.ended(False)
    assert await commit_offsets(client, producer, group, topic, 2, version) == code
    assert await committed_offset(client, group, topic) == (-1, 0)


@pytest.fixture
def ends_meanwhile(broker, monkeypatch):
    """The coordinator says yes, and before its answer is heard the transaction ends."""

    def of(producer) -> None:
        verifier = type(broker.services.coordination.verifier)
        verify = verifier.verify

        async def slow(self, *args, **options):
            refused = await verify(self, *args, **options)
            assert refused == {}
            transactions = broker.services.coordination.transactions
            await transactions.end(producer.transactional_id, producer.producer_id, producer.producer_epoch, False)
            transaction = transactions.describe(producer.transactional_id)
            await until(lambda: transaction.state.label == "CompleteAbort", "the transaction has ended")
            return refused

        monkeypatch.setattr(verifier, "verify", slow)

    return of


async def test_offsets_that_race_with_the_end_are_refused(client, name, new, ends_meanwhile):
    topic, group = name(), name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    await with_offsets(client, producer, group)
    ends_meanwhile(producer)
    assert await commit_offsets(client, producer, group, topic, 3) == ErrorCode.INVALID_TXN_STATE
    assert await committed_offset(client, group, topic) == (-1, 0)


async def test_records_that_race_with_the_end_are_refused(client, name, new, ends_meanwhile):
    topic = name()
    await create_topic(client, topic)
    producer = new()
    await producer.begin()
    await producer.added(topic, 0)
    ends_meanwhile(producer)
    assert (await producer.produce(topic, b"v")).error_code == ErrorCode.INVALID_TXN_STATE
    assert await offsets(client.call, topic) == (1, 1)  # the marker


# -- flush.messages --------------------------------------------------------------------------------------------------


async def test_with_flush_messages_coordinators_answer_after_the_flush(tmp_path):
    async with (
        running_broker(
            tmp_path,
            log_flush_interval_messages="1",
            log_flush_scheduler_interval_ms="3600000",
            transaction_state_log_num_partitions="1",
            offsets_topic_num_partitions="1",
        ) as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):

        def is_on_disk(topic):
            log = broker.services.logs.get(topic, 0)
            return log.log_end_offset > 0 and log.recovery_point == log.log_end_offset

        await create_topic(client, "t")
        producer = TransactionalProducer(client.call, "txn")
        await producer.begin()
        assert is_on_disk("__transaction_state")
        await find_group(client.call, "g")
        assert await commit_offset(client.call, "g", "t", 1) == 0
        assert is_on_disk("__consumer_offsets")
        await producer.added("t", 0)
        assert (await producer.produce("t", b"v")).error_code == 0
        await producer.ended(True)
        assert await offsets(client.call, "t") == (2, 2)  # the marker, too
        assert is_on_disk("t")


async def test_the_refused_offsets_of_a_fenced_producer_change_nothing(client, name, new):
    topic, group = name(), name()
    await create_topic(client, topic)
    old = new()
    await old.begin()
    producer = new(old.transactional_id)
    await producer.begin()
    await with_offsets(client, producer, group)
    assert await again(lambda: commit_offsets(client, producer, group, topic, 7)) == 0
    assert await commit_offsets(client, old, group, topic, 3) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await committed_offset(client, group, topic))[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    await producer.ended(True)
    assert await committed_offset(client, group, topic) == (7, 0)


async def test_offsets_that_are_replicated_late_are_in_the_transaction(tmp_path):
    async with (
        running_broker(tmp_path, offsets_commit_timeout_ms="50") as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):
        await create_topic(client, "t")
        producer = TransactionalProducer(client.call, "txn")
        await producer.begin()
        await with_offsets(client, producer, "g")
        assert await again(lambda: commit_offsets(client, producer, "g", "t", 5)) == 0
        log = broker.services.coordination.group_log
        held = hold_partition(broker, log.topic, log.partition_for("g"))
        assert await commit_offsets(client, producer, "g", "t", 5) == ErrorCode.REQUEST_TIMED_OUT  # repeated
        let_go(broker, held)
        await producer.ended(True)
        assert await committed_offset(client, "g", "t") == (5, 0)


async def test_a_marker_that_is_answered_late_does_not_end_the_next_transaction(broker, client, name, new):
    """The coordinator has sent it again meanwhile, on another connection."""
    topic, slow, group = name(), name(), name()
    for one in (topic, slow):
        await create_topic(client, one)
    producer, other = new(), new()
    for one in (producer, other):
        await one.begin()
    await other.write(slow, b"v")
    await with_offsets(client, producer, group)
    assert await again(lambda: commit_offsets(client, producer, group, topic, 5)) == 0
    held = hold_partition(broker, slow, 0)
    partition = broker.services.coordination.group_log.partition_for(group)
    markers = [marker(producer, "__consumer_offsets", partition), marker(other, slow, 0)]
    async with wire_client(broker.bootstrap_servers) as coordinator:
        late = asyncio.create_task(coordinator.call(WriteTxnMarkersRequest(markers=markers), 1))
        await until(lambda: held.log.log_end_offset == 2, "the markers are in the log")
        await producer.ended(True)
        await with_offsets(client, producer, group)
        assert await again(lambda: commit_offsets(client, producer, group, topic, 9)) == 0
        let_go(broker, held)
        await late
    assert (await committed_offset(client, group, topic))[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    await producer.ended(False)
    assert await committed_offset(client, group, topic) == (5, 0)
    await other.ended(True)
