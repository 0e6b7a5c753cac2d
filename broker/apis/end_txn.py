"""EndTxn: a producer commits or aborts its transaction (KIP-98).

The answer is sent when the decision is committed to `__transaction_state`; the markers follow.
"""

from __future__ import annotations

from broker.coordinator.still_coordinator import is_still_coordinator
from broker.coordinator.transactions.transaction import code_for
from broker.errors import RequestError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FIRST_VERSION_WITH_FENCED = 2


class EndTxnHandler(Handler[EndTxnRequest, EndTxnResponse]):
    """Asks the transaction coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
        """See the module docstring."""
        coordination = self._services.coordination
        try:
            is_new = await coordination.transactions.end(
                request.transactional_id, request.producer_id, request.producer_epoch, request.committed
            )
        except RequestError as error:
            return self.failed(request, code_for(error, context.api_version, FIRST_VERSION_WITH_FENCED))
        # What was decided before may have been the transaction before this one, which began at another coordinator.
        log = coordination.transaction_log
        if is_new or await is_still_coordinator(self._services, log, request.transactional_id):
            return EndTxnResponse()
        return self.failed(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def failed(self, request: EndTxnRequest, code: ErrorCode) -> EndTxnResponse:
        """Return the answer with the error; the transaction is not ended as requested."""
        return EndTxnResponse(error_code=code)
