"""AddPartitionsToTxn: add partitions to a transaction before it writes to them (KIP-98), or verify them (KIP-890).

Producers send versions up to 3, for one transaction. Brokers send version 4 and later, for several transactions, and
mostly to verify that a producer's partitions belong to its transaction. The request is atomic: if one partition does
not exist, the others get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.coordinator.transactions.transaction import TopicPartition, code_for
from broker.errors import RequestError, unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FIRST_VERSION_WITH_FENCED = 2
FIRST_VERSION_OF_BROKERS = 4

Codes = Mapping[TopicPartition, ErrorCode]


class AddPartitionsToTxnHandler(Handler[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse]):
    """Asks the transaction coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
        """See the module docstring."""
        version = context.api_version
        results = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_results(await self._outcome(transaction, version)),
            )
            for transaction in _transactions(request, version)
        ]
        if version < FIRST_VERSION_OF_BROKERS:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    async def _outcome(self, transaction: AddPartitionsToTxnTransaction, version: int) -> Codes:
        partitions = _partitions(transaction.topics)
        snapshot = self._services.metadata.snapshot
        unknown = [partition for partition in partitions if snapshot.partition(*partition) is None]
        if unknown:
            codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
            return codes | dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        coordinator = self._services.coordination.transactions
        producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
        try:
            if transaction.verify_only:
                return coordinator.verify(*producer, partitions)
            await coordinator.add_partitions(*producer, partitions)
        except RequestError as error:
            return dict.fromkeys(partitions, code_for(error, version, FIRST_VERSION_WITH_FENCED))
        except Exception as error:
            return dict.fromkeys(partitions, unexpected_code(error, "AddPartitionsToTxn"))
        return dict.fromkeys(partitions, ErrorCode.NONE)

    def failed(self, request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
        """Return the answer with the error: since version 4 for the request, before that for every partition."""
        if request.transactions:
            return AddPartitionsToTxnResponse(error_code=code)
        codes = dict.fromkeys(_partitions(request.v3_and_below_topics), code)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(codes))


def _transactions(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    if version >= FIRST_VERSION_OF_BROKERS:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [(topic.name, partition) for topic in topics for partition in topic.partitions]


def _results(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, partition), code in codes.items():
        result = topics.setdefault(topic, AddPartitionsToTxnTopicResult(name=topic))
        result.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=code)
        )
    return list(topics.values())
