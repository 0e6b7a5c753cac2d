"""Asks coordinators whether partitions belong to a transaction, before its first records are appended (KIP-890).

The coordinator's error codes are translated for the producer: PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH, and
TRANSACTION_ABORTABLE, which only newer producers know, becomes INVALID_TXN_STATE for older ones. If the coordinator
cannot be reached, the code is NETWORK_EXCEPTION; if there is none, COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from broker.cluster.connections import BrokerConnections
from broker.coordinator.coordinator_log import CoordinatorLog
from broker.coordinator.transactions.transaction import TopicPartition
from client.errors import KafkaError
from protocol.error_codes import ErrorCode, known_code
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

ADD_PARTITIONS_TO_TXN_VERSION = 5


class TransactionVerifier:
    """Asks the coordinators; if this broker is the coordinator, over its own listener."""

    def __init__(
        self,
        log: CoordinatorLog,
        brokers: BrokerConnections,
        listener_name: str,
        is_enabled: Callable[[], bool],
    ) -> None:
        """is_enabled: returns the current value of transaction.partition.verification.enable."""
        self._log = log
        self._brokers = brokers
        self._listener_name = listener_name
        self._is_enabled = is_enabled

    @property
    def is_enabled(self) -> bool:
        """Whether transactions are verified."""
        return self._is_enabled()

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        knows_abortable: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Return the partitions that must not be written to, with their error codes.

        knows_abortable: whether the producer knows TRANSACTION_ABORTABLE.
        """
        await self._log.learn_partitions()
        node = self._log.find(transactional_id, self._listener_name)
        if node is None:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    verify_only=True,
                    topics=[AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
                )
            ]
        )
        try:
            answer = await self._brokers.call(
                node.id, request, AddPartitionsToTxnResponse, ADD_PARTITIONS_TO_TXN_VERSION
            )
        except KafkaError:
            return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        if answer.error_code:
            return dict.fromkeys(partitions, known_code(answer.error_code))
        codes = {
            (topic.name, partition.partition_index): known_code(partition.partition_error_code)
            for transaction in answer.results_by_transaction
            for topic in transaction.topic_results
            for partition in topic.results_by_partition
        }
        failed: dict[TopicPartition, ErrorCode] = {}
        for key in partitions:
            code = codes.get(key, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code is ErrorCode.PRODUCER_FENCED:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            elif code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
                code = ErrorCode.INVALID_TXN_STATE
            if code is not ErrorCode.NONE:
                failed[key] = code
        return failed
