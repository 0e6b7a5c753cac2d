"""The part of the admin client for transactions (KIP-664): the state at the coordinators and at partition leaders.

A transaction hangs if it is open in a partition and its coordinator does not know it: the last stable offset of the
partition cannot advance. `abort_transaction` ends it in that partition, without the coordinator. `fence_producers` has
the coordinator abort a transaction that it knows.
"""

import asyncio
from collections.abc import Collection, Iterable

from client.admin.base import AdminBase
from client.admin.types import ActiveProducer, FencedProducer, TransactionDescription, TransactionListing
from client.errors import KafkaError, UnsupportedApiError, error_for
from client.options import refuse
from client.producer.prepared_transaction import PreparedTransaction
from client.topic_partition import TopicPartition
from client.wire.connection import Connection
from client.wire.coordinator import CoordinatorType
from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_FIRST_VERSION_WITH_DURATION = 1
_ANY_DURATION = -1


class TransactionAdmin(AdminBase):
    """ListTransactions, DescribeTransactions, DescribeProducers, InitProducerId and WriteTxnMarkers for aborts."""

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = _ANY_DURATION,
        brokers: Iterable[int] | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of these brokers, or of all, sorted; with filters, only those in one of these states,
        of one of these producer ids, and with a transaction that has been open for longer than `longer_than_ms`.

        Raises InvalidOptionError for a state that a broker does not know, UnsupportedApiError for a duration if a
        broker is older than 3.8.
        """
        request = ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=longer_than_ms
        )

        async def ask(node_id: int, connection: Connection) -> list[TransactionListing]:
            version = connection.common_version(ListTransactionsRequest)
            if version < _FIRST_VERSION_WITH_DURATION and longer_than_ms != _ANY_DURATION:
                raise UnsupportedApiError(f"broker {node_id} is too old to filter transactions by their duration")
            response = await connection.call(request, ListTransactionsResponse, version)
            if response.error_code:
                raise error_for(response.error_code, context=f"transactions of broker {node_id}")
            if response.unknown_state_filters:
                raise refuse("states", response.unknown_state_filters[0], f"broker {node_id} does not know this state")
            return [
                TransactionListing(one.transactional_id, one.producer_id, one.transaction_state, node_id)
                for one in response.transaction_states
            ]

        return sorted(listing for part in await self._ask_brokers(ask, brokers) for listing in part)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Describe one transactional id. Raises TransactionalIdNotFoundError, …"""
        result = (await self.describe_transactions([transactional_id]))[transactional_id]
        if isinstance(result, KafkaError):
            raise result
        return result

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Describe transactional ids. Return the description or the error of each."""

        async def ask(
            node_id: int, connection: Connection, wanted: list[str]
        ) -> dict[str, TransactionDescription | KafkaError]:
            request = DescribeTransactionsRequest(transactional_ids=wanted)
            response = await connection.call(request, DescribeTransactionsResponse)
            return {
                one.transactional_id: error_for(one.error_code, context=f"transactional id {one.transactional_id}")
                if one.error_code
                else TransactionDescription(
                    one.transactional_id,
                    one.transaction_state,
                    one.producer_id,
                    one.producer_epoch,
                    one.transaction_timeout_ms,
                    one.transaction_start_time_ms,
                    tuple(
                        sorted(TopicPartition(data.topic, number) for data in one.topics for number in data.partitions)
                    ),
                    node_id,
                )
                for one in response.transaction_states
            }

        return await self._ask_coordinators(CoordinatorType.TRANSACTION, transactional_ids, ask)

    async def end_transactions(
        self, prepared: Iterable[PreparedTransaction], *, commit: bool
    ) -> dict[PreparedTransaction, KafkaError | None]:
        """Commit or abort transactions that their producers have handed over. Return None or the error for each.

        A repeated call changes nothing. ProducerFencedError: there is a newer producer with this transactional id, or
        the transaction timed out and was aborted. InvalidTxnStateError: the transaction has ended the other way.
        """
        wanted = {one.transactional_id: one for one in prepared}

        async def ask(node_id: int, connection: Connection, part: list[str]) -> dict[str, KafkaError | None]:
            async def end(name: str) -> KafkaError | None:
                one = wanted[name]
                request = EndTxnRequest(
                    transactional_id=name,
                    producer_id=one.producer_id,
                    producer_epoch=one.producer_epoch,
                    committed=commit,
                )
                code = (await connection.call(request, EndTxnResponse)).error_code
                if code == ErrorCode.INVALID_PRODUCER_EPOCH:  # the answer of older coordinators
                    code = ErrorCode.PRODUCER_FENCED
                return error_for(code, context=f"transactional id {name}") if code else None

            return dict(zip(part, await asyncio.gather(*map(end, part)), strict=True))

        results = await self._ask_coordinators(CoordinatorType.TRANSACTION, wanted, ask)
        return {wanted[name]: result for name, result in results.items()}

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, FencedProducer | KafkaError]:
        """Fence the producers of transactional ids, and abort their open transactions. Return the new epoch of each, or
        its error.

        A fenced producer fails at its next call with ProducerFencedError. As in Kafka, an id that its coordinator does
        not know is created, and a new producer of the id is fenced, too. ConcurrentTransactionsError is raised if an
        abort is not complete in time: a partition has no leader.
        """

        async def ask(node_id: int, connection: Connection, part: list[str]) -> dict[str, FencedProducer | KafkaError]:
            async def fence(name: str) -> FencedProducer | KafkaError:
                # The coordinator waits for its log for as long as this timeout. A new producer sets its own one.
                request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=self._request_timeout_ms)
                answer = await connection.call(request, InitProducerIdResponse)
                if answer.error_code:
                    return error_for(answer.error_code, context=f"transactional id {name}")
                return FencedProducer(answer.producer_id, answer.producer_epoch)

            return dict(zip(part, await asyncio.gather(*map(fence, part)), strict=True))

        return await self._ask_coordinators(CoordinatorType.TRANSACTION, transactional_ids, ask)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers that the leaders of these partitions know, or the replicas on `broker_id`.

        Raises UnknownTopicOrPartitionError, NotLeaderOrFollowerError if the broker has no such replica, …
        """
        wanted = list(dict.fromkeys(partitions))
        found: dict[TopicPartition, list[ActiveProducer]] = {}

        async def attempt() -> None:
            rest = [partition for partition in wanted if partition not in found]
            by_node = await self._by_leader(rest) if broker_id is None else {broker_id: rest}
            for node_id, part in by_node.items():
                topics: dict[str, TopicRequest] = {}
                for topic, number in part:
                    topics.setdefault(topic, TopicRequest(name=topic)).partition_indexes.append(number)
                connection = await self._cluster.connection(node_id)
                request = DescribeProducersRequest(topics=list(topics.values()))
                response = await connection.call(request, DescribeProducersResponse)
                for answer in response.topics:
                    for one in answer.partitions:
                        name = TopicPartition(answer.name, one.partition_index)
                        if one.error_code:
                            raise error_for(one.error_code, one.error_message, context=str(name))
                        found[name] = [
                            ActiveProducer(
                                producer.producer_id,
                                producer.producer_epoch,
                                producer.last_sequence,
                                producer.last_timestamp,
                                producer.coordinator_epoch,
                                producer.current_txn_start_offset,
                            )
                            for producer in one.active_producers
                        ]

        if broker_id is not None:
            await self._cluster.refresh([])
            if broker_id not in self._cluster.metadata.brokers:
                raise refuse("broker_id", broker_id, "the cluster has no such broker now")
            await attempt()  # a retry would not change that the broker has no such replica
        elif wanted:
            await self._cluster.retry(attempt, timeout_s=self._timeout_s)
        return {partition: sorted(found[partition]) for partition in wanted}

    async def abort_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Have a partition's leader append an abort marker for a producer, whether or not a transaction is open.

        `coordinator_epoch` is that of ActiveProducer, or 0 if it is -1 there. Raises InvalidProducerEpochError if the
        producer has a newer epoch, TransactionCoordinatorFencedError if `coordinator_epoch` is too old, and the
        error of the leader's answer otherwise.
        """
        topic = WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=coordinator_epoch,
        )

        async def attempt() -> None:
            (leader,) = await self._by_leader([partition])
            connection = await self._cluster.connection(leader)
            response = await connection.call(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
            for result in (one for made in response.markers for answer in made.topics for one in answer.partitions):
                if result.error_code:
                    raise error_for(result.error_code, context=f"abort of producer {producer_id} in {partition}")

        await self._cluster.retry(attempt, timeout_s=self._timeout_s)
