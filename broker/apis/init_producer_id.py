"""InitProducerId: a producer id for an idempotent producer (KIP-98, KIP-360).

Ids come from blocks that brokers take from the registry, so no two producers of a cluster share one. Transactional
ids belong to the transaction coordinator, which this broker does not run.
"""

from __future__ import annotations

from broker.handler import Handler, Needs, Operation, Resource
from broker.request_context import RequestContext
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class InitProducerIdHandler(Handler[InitProducerIdRequest, InitProducerIdResponse]):
    """Hands out producer ids with epoch 0."""

    __slots__ = ("_services",)
    needs = Needs(Resource.CLUSTER, Operation.IDEMPOTENT_WRITE)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
        """See the module's text."""
        if request.transactional_id is not None:
            empty = request.transactional_id == ""
            return self.failed(request, ErrorCode.INVALID_REQUEST if empty else ErrorCode.NOT_COORDINATOR)
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            return self.failed(request, ErrorCode.INVALID_REQUEST)
        return InitProducerIdResponse(producer_id=await self._services.producer_ids.next(), producer_epoch=0)

    def failed(self, request: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
        """No id."""
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
