"""ListTransactions: the transactional ids that this broker coordinates (KIP-664, KIP-994).

Filters: names of states (the answer reports unknown names), producer ids, and the duration of the transaction.
"""

from __future__ import annotations

from broker.coordinator.transactions.transaction import STATES_BY_LABEL
from broker.coordinator.transactions.transaction import TransactionState as State
from broker.errors import RequestError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


class ListTransactionsHandler(Handler[ListTransactionsRequest, ListTransactionsResponse]):
    """Answers from the coordinator's memory."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
        """See the module docstring."""
        try:
            transactions = self._services.coordination.transactions.transactions()
        except RequestError as error:
            return self.failed(request, error.code)
        producer_ids = set(request.producer_id_filters)
        labels = set(request.state_filters)
        states = {state for label, state in STATES_BY_LABEL.items() if label in labels}
        shortest_ms = request.duration_filter
        now_ms = self._services.now_ms()
        return ListTransactionsResponse(
            unknown_state_filters=sorted(labels - STATES_BY_LABEL.keys()),
            transaction_states=[
                TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.state.label,
                )
                for one in transactions
                if one.pending is not State.DEAD
                and (not producer_ids or one.producer_id in producer_ids)
                and (not labels or one.state in states)
                and (shortest_ms < 0 or now_ms - one.start_ms > shortest_ms)
            ],
        )

    def failed(self, request: ListTransactionsRequest, code: ErrorCode) -> ListTransactionsResponse:
        """Return the answer to a failed request."""
        return ListTransactionsResponse(error_code=code)
