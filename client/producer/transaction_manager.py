"""A producer's transactions (KIP-98): the requests to the coordinators, their order, and the meaning of their errors.

    InitProducerId           at the start: allocates an epoch of the transactional id's producer id, fences older
                             producers and aborts their open transaction
    AddPartitionsToTxn       before the first record for a partition is sent; one request for all new partitions
    AddOffsetsToTxn          once for each group and transaction, then
    TxnOffsetCommit          to the group's coordinator
    EndTxn                   unless nothing was added

There are three kinds of errors. A retriable error (the coordinator moved, is loading, or still ends the last
transaction) is retried, for `max_block_ms`. Some errors allow only an abort. All other errors end the producer; the
main one is that a newer producer uses the transactional id (ProducerFencedError; old coordinators answer
InvalidProducerEpoch).

An abort waits for the batches in flight, so that no record of this transaction can arrive after its end. If sequence
numbers are in doubt then (a batch was sent and not acknowledged, a broker forgot the producer), the next transaction
gets another epoch (KIP-360), which fences whatever may still arrive.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from client.errors import IllegalStateError, KafkaError, UnsupportedApiError, error_for
from client.producer.identity import NONE, ProducerIdentity
from client.producer.options import ProducerOptions
from client.producer.prepared_transaction import PreparedTransaction
from client.producer.transaction_status import UNKNOWN_PRODUCER, TransactionState, TransactionStatus, is_fatal
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from client.wire.connection import Connection
from client.wire.coordinator import CoordinatorType, find_coordinator
from protocol.error_codes import ErrorCode
from protocol.errors import EncodeError
from protocol.message import Message
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

R = TypeVar("R", bound=Message)

# From version 4 on the request is sent by brokers, for many transactions at once.
MAX_ADD_PARTITIONS_VERSION = 3
# The first version that lets a producer continue under the next epoch.
MIN_EPOCH_VERSION = 3
# The backoff while the coordinator ends the last transaction, which takes a moment.
CONCURRENT_BACKOFF_S = 0.02

_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
_EPOCH_GONE = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class TransactionManager:
    """One transactional id. `on_failure` is called with the error that ends a transaction or the producer,
    `on_progress` when records can be sent that had to wait.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        options: ProducerOptions,
        *,
        on_progress: Callable[[], None],
        on_failure: Callable[[KafkaError], None],
    ) -> None:
        self.transactional_id = transactional_id
        self.status = TransactionStatus()
        # The coordinator allocates producer ids, so `fetch` of this identity is never called.
        self.identity = ProducerIdentity(cluster, request_timeout_ms=0, on_known=on_progress, on_error=on_failure)
        self._cluster = cluster
        self._options = options
        self._on_progress = on_progress
        self._on_failure = on_failure
        self._nodes: dict[tuple[CoordinatorType, str], int] = {}
        # Of this transaction: its partitions, those to request, those requested, groups.
        self._partitions: set[TopicPartition] = set()
        self._pending: set[TopicPartition] = set()
        self._asked: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._adding: asyncio.Future[None] | None = None
        # Whether the coordinator has an open transaction: certainly, or possibly (its answer was lost).
        self._started = False
        self._maybe_started = False

    @property
    def is_failing(self) -> bool:
        """See TransactionStatus.is_failing."""
        return self.status.is_failing

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction to abort."""
        return self.status.state in (
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTABLE_ERROR,
            TransactionState.ABORTING,
        )

    # ---- start and end

    async def initialise(self) -> None:
        """Get an epoch, which fences older producers of this transactional id. Raises the coordinator's error."""
        if self.status.state is TransactionState.UNINITIALIZED:
            await self._fetch_epoch(NONE)
            self.status.initialised()

    async def _fetch_epoch(self, used: tuple[int, int]) -> None:
        if used != NONE:
            connection = await self._coordinator(CoordinatorType.TRANSACTION, self.transactional_id)
            if connection.common_version(InitProducerIdRequest) < MIN_EPOCH_VERSION:
                # Without the old epoch in the request the broker could not detect a newer producer, and would fence it.
                error = UnsupportedApiError("this broker's InitProducerId cannot renew an epoch (KIP-360)")
                raise self._fail(error, fatal=True)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._options.transaction_timeout_ms,
            producer_id=used[0],
            producer_epoch=used[1],
        )
        answer = await self._ask(request, InitProducerIdResponse, lambda answer: [answer.error_code])
        self.identity.current = (answer.producer_id, answer.producer_epoch)

    def begin(self) -> None:
        """Open a transaction; the coordinator learns of it with the first partition."""
        self.status.begin()

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; no record may be in flight. Raises the coordinator's error; after a retriable error call
        again.
        """
        await self._settle()
        if commit and self.status.error is not None:
            raise self.status.error.with_traceback(None)
        if self._started or self._maybe_started:
            await self._end_at_coordinator(commit)
        if not commit and self.status.needs_epoch:
            await self._fetch_epoch(self.identity.current)
            self.status.needs_epoch = False
        self._started = self._maybe_started = False
        for one in (self._partitions, self._asked, self._groups):
            one.clear()
        self.status.ended()

    async def prepare(self) -> PreparedTransaction | None:
        """Return the prepared transaction, or None if it is empty. No record may be in flight. Raises its error."""
        await self._settle()
        if self.status.error is not None:
            raise self.status.error.with_traceback(None)
        if not self._started:
            self.status.ended()
            return None
        self.status.prepared()
        return PreparedTransaction(self.transactional_id, *self.identity.current)

    async def _settle(self) -> None:
        self._pending.clear()
        while self._adding is not None:
            await asyncio.shield(self._adding)

    async def _end_at_coordinator(self, commit: bool) -> None:
        cause = self.status.error
        if not commit and cause is not None and cause.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return  # the coordinator has forgotten the transaction; the caller gets a new epoch
        producer_id, epoch = self.identity.current
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        may_be_nothing = not commit and not self._started

        def codes(answer: EndTxnResponse) -> list[int]:
            code = answer.error_code
            return [0 if may_be_nothing and code == ErrorCode.INVALID_TXN_STATE else code]

        try:
            await self._ask(request, EndTxnResponse, codes)
        except KafkaError as error:
            if commit or error.code not in UNKNOWN_PRODUCER:
                raise
        self._started = self._maybe_started = False

    # ---- partitions

    def holds(self, partition: TopicPartition) -> bool:
        """Whether records for a partition may be sent. If not, request that the coordinator adds the partition."""
        if partition in self._partitions:
            return True
        if partition not in self._asked and not self.is_failing:
            self._asked.add(partition)
            self._pending.add(partition)
            if self._adding is None:
                self._adding = asyncio.get_running_loop().create_future()
                self._cluster.background.spawn(self._add_partitions(self._adding), "add partitions to transaction")
        return False

    async def _add_partitions(self, done: "asyncio.Future[None]") -> None:
        try:
            while self._pending:
                wanted, self._pending = self._pending, set()
                await self._add(wanted)
                self._partitions |= wanted
                self._on_progress()
        except KafkaError as error:
            self._maybe_started = True
            self._fail(error, fatal=False)
        finally:
            self._adding = None
            done.set_result(None)

    async def _add(self, partitions: Iterable[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(partitions):
            topics.setdefault(topic, []).append(number)
        producer_id, epoch = self.identity.current
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
            ],
        )

        def codes(answer: AddPartitionsToTxnResponse) -> list[int]:
            return [
                partition.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for partition in topic.results_by_partition
            ]

        await self._ask(request, AddPartitionsToTxnResponse, codes, fatal=False, max_version=MAX_ADD_PARTITIONS_VERSION)
        self._started = True

    # ---- offsets

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction. After a coordinator's error the transaction has to abort."""
        self.status.check_open("send_offsets")
        if not offsets:
            return
        try:
            if group.group_id not in self._groups:
                await self._add_group(group.group_id)
            await self._commit_offsets(offsets, group)
        except KafkaError as error:
            self._maybe_started = True
            raise self._fail(error, fatal=False) from None
        except asyncio.CancelledError:
            self._maybe_started = True
            self._fail(IllegalStateError("send_offsets was cancelled: its offsets may be missing"), fatal=False)
            raise
        self.status.check_open("send_offsets")

    async def _add_group(self, group_id: str) -> None:
        producer_id, epoch = self.identity.current
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=group_id
        )
        await self._ask(request, AddOffsetsToTxnResponse, lambda answer: [answer.error_code])
        self._started = True
        self._groups.add(group_id)

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, number), value in offsets.items():
            full = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=full.offset,
                    committed_leader_epoch=full.leader_epoch,
                    committed_metadata=full.metadata,
                )
            )
        producer_id, epoch = self.identity.current
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )

        def codes(answer: TxnOffsetCommitResponse) -> list[int]:
            return [partition.error_code for topic in answer.topics for partition in topic.partitions]

        await self._ask(request, TxnOffsetCommitResponse, codes, kind=CoordinatorType.GROUP, key=group.group_id)

    # ---- errors

    def batch_failed(self, error: KafkaError, *, was_sent: bool) -> None:
        """Note that a batch of this transaction has failed."""
        if was_sent:
            self.status.needs_epoch = True
        # A leader that answers InvalidProducerEpoch or InvalidTxnState may only have seen the end of a transaction that
        # timed out: whether a newer producer exists is for the coordinator to say (KIP-588).
        fatal = error.code != ErrorCode.INVALID_TXN_STATE and is_fatal(error, otherwise=False)
        self._fail(error, fatal=fatal)

    def record_failed(self, error: KafkaError) -> None:
        """Note that a record of this transaction failed before it was put into a batch."""
        self._fail(error, fatal=False)

    def _fail(self, error: KafkaError, *, fatal: bool) -> KafkaError:
        if self.status.failed(error, fatal=fatal):
            self._pending.clear()
            self._on_failure(error)
        return error

    # ---- coordinators

    async def _ask(
        self,
        request: Message,
        response: type[R],
        codes: Callable[[R], list[int]],
        *,
        kind: CoordinatorType = CoordinatorType.TRANSACTION,
        key: str | None = None,
        fatal: bool = True,
        max_version: int | None = None,
    ) -> R:
        """Send a request to the coordinator until it answers without an error. Raises a retriable error after
        `max_block_ms`; any other error changes the state and is raised. `fatal`: whether an error without a rule is.
        """
        key = self.transactional_id if key is None else key
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.max_block_s
        retries = self._cluster.retries()
        while True:
            try:
                connection = await self._coordinator(kind, key)
                answer = await connection.call(request, response, max_version=max_version)
                code = _most_severe(codes(answer))
                if not code:
                    return answer
                error = error_for(ErrorCode.PRODUCER_FENCED if code in _EPOCH_GONE else code, context=self._label)
            except KafkaError as caught:
                error = caught
            except EncodeError as caught:
                error = UnsupportedApiError(str(caught))
            if error.code is None or error.code in _MOVED:
                self._nodes.pop((kind, key), None)
                self._cluster.request_refresh()
            if not error.retriable:
                raise self._fail(error, fatal=is_fatal(error, otherwise=fatal)) from None
            delay_s = retries.next_delay_s()
            if error.code == ErrorCode.CONCURRENT_TRANSACTIONS:
                delay_s = min(delay_s, CONCURRENT_BACKOFF_S)
            if loop.time() + delay_s > deadline:
                raise error
            await asyncio.sleep(delay_s)

    @property
    def _label(self) -> str:
        return f"transactional id {self.transactional_id}"

    async def _coordinator(self, kind: CoordinatorType, key: str) -> Connection:
        node = self._nodes.get((kind, key))
        if node is None:
            node = self._nodes[kind, key] = await find_coordinator(self._cluster, kind, key)
        return await self._cluster.connection(node)


def _most_severe(codes: Iterable[int]) -> int:
    """The most important of several error codes: errors that are not retriable precede retriable ones;
    OPERATION_NOT_ATTEMPTED, a consequence of the others, comes last.
    """

    def rank(code: int) -> int:
        return 2 if code == ErrorCode.OPERATION_NOT_ATTEMPTED else int(error_for(code).retriable)

    return min((code for code in codes if code), key=rank, default=0)
