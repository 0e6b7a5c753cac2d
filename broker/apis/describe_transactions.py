"""DescribeTransactions: the state of transactional ids, from their coordinator (KIP-664)."""

from __future__ import annotations

from broker.errors import RequestError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


class DescribeTransactionsHandler(Handler[DescribeTransactionsRequest, DescribeTransactionsResponse]):
    """Answers from the coordinator's memory."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
        """See the module docstring."""
        return DescribeTransactionsResponse(
            transaction_states=[self._describe(transactional_id) for transactional_id in request.transactional_ids]
        )

    def _describe(self, transactional_id: str) -> TransactionState:
        try:
            transaction = self._services.coordination.transactions.describe(transactional_id)
        except RequestError as error:
            return TransactionState(transactional_id=transactional_id, error_code=error.code)
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(transaction.partitions):
            topics.setdefault(topic, []).append(partition)
        return TransactionState(
            transactional_id=transactional_id,
            transaction_state=transaction.state.label,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
        )

    def failed(self, request: DescribeTransactionsRequest, code: ErrorCode) -> DescribeTransactionsResponse:
        """Return the answer with the error for every transactional id."""
        return DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(transactional_id=transactional_id, error_code=code)
                for transactional_id in request.transactional_ids
            ]
        )
