"""AllocateProducerIds: the controller gives a broker a block of producer ids (KIP-730).

Ottla's brokers take their blocks from the registry directly; Kafka's brokers ask the controller, which uses the same
znode.
"""

from __future__ import annotations

from broker.producer_ids import BLOCK_SIZE
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


class AllocateProducerIdsHandler(Handler[AllocateProducerIdsRequest, AllocateProducerIdsResponse]):
    """Takes blocks for other brokers while this broker is the controller."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: AllocateProducerIdsRequest, context: RequestContext) -> AllocateProducerIdsResponse:
        """See the module docstring."""
        services = self._services
        if not services.is_controller():
            return self.failed(request, ErrorCode.NOT_CONTROLLER)
        epoch = services.controller.live_broker_epoch(request.broker_id)
        if epoch is None:
            return self.failed(request, ErrorCode.BROKER_ID_NOT_REGISTERED)
        if epoch != request.broker_epoch:
            return self.failed(request, ErrorCode.STALE_BROKER_EPOCH)
        start = await services.producer_ids.take_block_for(request.broker_id)
        return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK_SIZE)

    def failed(self, request: AllocateProducerIdsRequest, code: ErrorCode) -> AllocateProducerIdsResponse:
        """Return the answer with the error; no ids are allocated."""
        return AllocateProducerIdsResponse(error_code=code)
