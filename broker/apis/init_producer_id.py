"""InitProducerId: assign a producer id and epoch to an idempotent or a transactional producer (KIP-98, KIP-360).

Brokers take blocks of ids from the registry, so that ids are unique in the cluster. For a transactional id, its
coordinator assigns producer id and epoch; without one, every request gets a new producer id.
"""

from __future__ import annotations

from broker.coordinator.transactions.transaction import ProducerIdAndEpoch, code_for
from broker.errors import RequestError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FIRST_VERSION_WITH_FENCED = 4
NONE = -1


class InitProducerIdHandler(Handler[InitProducerIdRequest, InitProducerIdResponse]):
    """Assigns ids through the transaction coordinator or from this broker's block."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
        """See the module docstring."""
        if (request.producer_id == NONE) != (request.producer_epoch == NONE):
            return self.failed(request, ErrorCode.INVALID_REQUEST)
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=await self._services.producer_ids.next(), producer_epoch=0)
        expected = None
        if request.producer_id != NONE:
            expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        try:
            producer_id, producer_epoch = await self._services.coordination.transactions.init_producer_id(
                request.transactional_id, request.transaction_timeout_ms, expected
            )
        except RequestError as error:
            return self.failed(request, code_for(error, context.api_version, FIRST_VERSION_WITH_FENCED))
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=producer_epoch)

    def failed(self, request: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
        """Return the answer with the error; no id is assigned."""
        return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)
