"""Transactional producers in a simulated cluster, and a reader of what they commit.

A producer repeats each step until it is answered, fenced, or out of patience. Where an answer did not come it asks for
a new epoch before its next transaction: a request that is still on its way would else act on that (KIP-890 part 2 has
the broker do so; clients of 3.9 cannot help it otherwise). Some transactions are left alone, to time out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from client.consumer.reader import Reader
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.groups import fetch_offsets
from support.simulation.broker_host import START_MS
from support.simulation.cluster import SimulatedCluster
from support.simulation.ledger import BrokenPromiseError
from support.simulation.plain_client import (
    ELSEWHERE,
    GROUP,
    TRANSACTION,
    NowhereError,
    PlainClient,
    UnansweredError,
)
from support.simulation.transaction_ledger import End, SimulatedTransaction, TransactionLedger
from support.transactions import TransactionalProducer, committed, offsets

TIMEOUT_MS = 8_000
PATIENCE_S = 15.0
OF_LEADERS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
)
LATER = (*ELSEWHERE, *OF_LEADERS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
FATAL = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)
"""What a transaction ends with that has timed out."""


class TransactionLostError(Exception):
    """The producer cannot go on with its transaction."""


class TransactionWorkload:
    """Producers and a reader, as tasks; `stop` ends the producers."""

    def __init__(self, cluster: SimulatedCluster, topic: str, partitions: int) -> None:
        self.ledger = TransactionLedger()
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._stopping = False

    def stop(self) -> None:
        """Begin no further transaction."""
        self._stopping = True

    # -- producers ---------------------------------------------------------------------------------------------------

    async def produce(self, client: PlainClient, transactional_id: str) -> None:
        """Run one transaction after the other until stopped."""
        producer = _Producer(client, transactional_id, self._topic, self._cluster)
        choose = client.random.random
        number = 0
        while not self._stopping:
            number += 1
            count = client.random.randint(2, min(3, self._partitions))
            partitions = sorted(client.random.sample(range(self._partitions), count))
            transaction = self.ledger.begin(transactional_id, number, partitions)
            try:
                await self._carry_out(producer, transaction, is_committed=choose() < 0.7)
            except TransactionLostError as error:
                self._cluster.trace.note(transaction.value, "is lost:", error)
                producer.is_dirty = True
            await client.pause(0.0, 0.5)

    async def _carry_out(self, producer: _Producer, transaction: SimulatedTransaction, *, is_committed: bool) -> None:
        choose, pause = producer.client.random.random, producer.client.pause
        coordinator = None
        if producer.is_dirty:
            await producer.begin()
        await producer.add(*transaction.partitions)
        for partition in transaction.partitions:
            await pause(0.0, 0.1)
            await producer.write(partition, transaction.value)
            transaction.written.add(partition)
            if choose() < 0.03:
                producer.is_dirty = True
                await pause(0.0, 2 * TIMEOUT_MS / 1000)
                return
        if choose() < 0.6:
            await pause(0.0, 0.1)
            await producer.add_group()
            await pause(0.0, 0.1)
            transaction.offset_sent = True
            await producer.commit_offset(transaction.number)
            coordinator = producer.group_coordinator
            if choose() < 0.3:
                await producer.be_zombie(transaction.number - 1)
        await pause(0.0, 0.1)
        if is_committed:
            transaction.end = End.UNKNOWN
        await producer.end(is_committed)
        if is_committed:
            transaction.end = End.COMMITTED
        self._cluster.trace.note(transaction.value, "is", "committed" if is_committed else "aborted")
        if is_committed and transaction.offset_sent and choose() < 0.5:
            await self._check_offset(producer.client, transaction, coordinator)

    async def _check_offset(
        self, client: PlainClient, transaction: SimulatedTransaction, coordinator: int | None
    ) -> None:
        """The offset of the transaction that was committed last is the group's, says the coordinator that took it.

        Another broker may not know yet that it coordinates the group no more.
        """
        group_id = transaction.transactional_id
        try:
            offset = await self._offset(client, group_id)
        except NowhereError:
            return
        if offset != transaction.number and client.coordinator_of(GROUP, group_id) == coordinator:
            raise BrokenPromiseError(f"{transaction.value!r} is committed, and the offset of its group is {offset}")

    # -- readers -----------------------------------------------------------------------------------------------------

    async def consume(self) -> None:
        """Read committed records until cancelled."""
        _, network, rng = self._cluster.client_network()
        reader = Reader(
            bootstrap_servers=self._cluster.bootstrap_servers,
            client_id="reader",
            auto_offset_reset="none",
            isolation_level="read_committed",
            request_timeout_ms=3_000,
            retry_backoff_ms=50,
            retry_backoff_max_ms=500,
            metadata_max_age_ms=5_000,
            network=network,
            random=rng,
        )
        await _patiently(reader.start)
        try:
            reader.assign({TopicPartition(self._topic, partition): 0 for partition in range(self._partitions)})
            while True:
                for record in await _patiently(lambda: reader.fetch(timeout_ms=2_000)):
                    self.ledger.see(record.partition, record.value)
        finally:
            await reader.close()

    async def all_have_ended(self, client: PlainClient) -> bool:
        """Whether nothing is open in any partition: its last stable offset is its high watermark."""
        for partition in range(self._partitions):
            try:
                stable, end = await offsets(self._leaders(client, partition), self._topic, partition)
            except (UnansweredError, NowhereError, AssertionError):
                return False
            if stable != end:
                return False
        return True

    def _leaders(self, client: PlainClient, partition: int) -> Callable[[Any, int], Awaitable[Any]]:
        return lambda request, version: client.ask_leader(self._topic, partition, request, version)

    async def check(self, client: PlainClient) -> None:
        """Compare the final contents with the ledger, after all faults are undone and all transactions have ended."""
        content = {partition: await self._content(client, partition) for partition in range(self._partitions)}
        groups = {one.transactional_id for one in self.ledger.transactions.values()}
        try:
            found = {name: await self._offset(client, name) for name in sorted(groups)}
        except NowhereError as error:
            raise BrokenPromiseError(str(error)) from None
        self.ledger.check(content, found.__getitem__)

    async def _content(self, client: PlainClient, partition: int) -> list[bytes]:
        """The committed values of a partition. A new leader may answer OFFSET_NOT_AVAILABLE at first (KIP-207)."""
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            try:
                return await committed(self._leaders(client, partition), self._topic, partition)
            except (UnansweredError, NowhereError, AssertionError) as error:
                if asyncio.get_running_loop().time() > end:
                    raise BrokenPromiseError(f"{self._topic}-{partition} cannot be read: {error}") from None
            await client.pause()

    async def _offset(self, client: PlainClient, group_id: str) -> int:
        """The committed offset of a group. Raises NowhereError if nobody tells it for a while."""
        ask = client.ask_coordinator(GROUP, group_id)
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            try:
                code, found = await fetch_offsets(ask, group_id, self._topic, 0, require_stable=True)
                offset, _, _, partition_code = found[0] if found else (-1, -1, "", 0)
                if not code and not partition_code:
                    return offset
                client.forget(GROUP, group_id)
                why = ErrorCode(code or partition_code).name
            except (UnansweredError, NowhereError) as error:
                why = str(error)
            if asyncio.get_running_loop().time() > end:
                raise NowhereError(f"the offset of {group_id} is not to be had: {why}")
            await client.pause()


class _Producer:
    """A transactional producer that repeats what may be repeated. Methods raise TransactionLostError."""

    def __init__(self, client: PlainClient, transactional_id: str, topic: str, cluster: SimulatedCluster) -> None:
        self.client = client
        self.is_dirty = True
        """Whether it needs a new epoch before it does anything else."""
        self._before: tuple[int, int] | None = None
        """Its producer id and epoch before this one."""
        self._id = transactional_id
        self._topic = topic
        self._cluster = cluster
        self._plain = TransactionalProducer(client.ask_coordinator(TRANSACTION, transactional_id), transactional_id)
        self._plain.timeout_ms = TIMEOUT_MS

    async def _until_done(self, step: Callable[[], Coroutine[Any, Any, int]], kind: int | None) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_S
        while True:
            try:
                code = ErrorCode(await step())
                why = code.name
            except UnansweredError as error:
                self.is_dirty = True
                code, why = ErrorCode.NOT_COORDINATOR, str(error)
            except NowhereError as error:
                code, why = ErrorCode.NOT_COORDINATOR, str(error)
            if code == ErrorCode.NONE:
                return
            if code in ELSEWHERE and kind is not None:
                self.client.forget(kind, self._id)
            if code in FATAL or loop.time() > end:
                raise TransactionLostError(why)
            is_disk_of_leader = kind is None and code == ErrorCode.KAFKA_STORAGE_ERROR
            if code not in LATER and not is_disk_of_leader:
                raise BrokenPromiseError(f"producer {self._id} is told {why}")
            await self.client.pause()

    async def begin(self) -> None:
        """InitProducerId."""
        if self._plain.producer_id >= 0:
            self._before = self._plain.producer_id, self._plain.producer_epoch
        self._plain.producer_id = self._plain.producer_epoch = -1
        await self._until_done(self._plain.init, TRANSACTION)
        self.is_dirty = False

    async def add(self, *partitions: int) -> None:
        """AddPartitionsToTxn."""

        async def step() -> int:
            codes = await self._plain.add(self._topic, *partitions)
            return next((code for code in codes if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED), max(codes))

        await self._until_done(step, TRANSACTION)

    async def write(self, partition: int, value: bytes) -> None:
        """Produce."""
        coordinator = self._plain.ask

        async def step() -> int:
            self._plain.ask = lambda request, version: self.client.ask_leader(self._topic, partition, request, version)
            try:
                return int(
                    (await self._plain.produce(self._topic, value, partition=partition, timestamp=START_MS)).error_code
                )
            finally:
                self._plain.ask = coordinator

        await self._until_done(step, None)

    async def add_group(self) -> None:
        """AddOffsetsToTxn, of the group that has the producer's name."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._plain.producer_id,
            producer_epoch=self._plain.producer_epoch,
            group_id=self._id,
        )

        async def step() -> int:
            return int((await self._plain.ask(request, 3)).error_code)

        await self._until_done(step, TRANSACTION)

    async def commit_offset(self, offset: int) -> None:
        """TxnOffsetCommit."""
        producer = self._plain.producer_id, self._plain.producer_epoch
        await self._until_done(lambda: self._commit_offset(offset, *producer), GROUP)

    @property
    def group_coordinator(self) -> int | None:
        """The coordinator of the group that has the producer's name."""
        return self.client.coordinator_of(GROUP, self._id)

    async def be_zombie(self, offset: int) -> None:
        """TxnOffsetCommit with the epoch before, if there is one."""
        if self._before is None:
            return
        try:
            code = await self._commit_offset(offset, *self._before)
        except (UnansweredError, NowhereError):
            return
        if code == ErrorCode.NONE:
            raise BrokenPromiseError(f"an offset of {self._id} is taken from the epoch before")

    async def _commit_offset(self, offset: int, producer_id: int, producer_epoch: int) -> int:
        one = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self._id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self._topic, partitions=[one])],
        )
        ask = self.client.ask_coordinator(GROUP, self._id)
        return int((await ask(request, 4)).topics[0].partitions[0].error_code)

    async def end(self, committed: bool) -> None:
        """EndTxn."""
        await self._until_done(lambda: self._plain.end(committed), TRANSACTION)


async def _patiently(attempt: Callable[[], Awaitable[Any]]) -> Any:
    """Retry until it succeeds, after lost connections and similar errors."""
    while True:
        try:
            return await attempt()
        except KafkaError as error:
            if not error.retriable:
                raise
            await asyncio.sleep(0.2)
