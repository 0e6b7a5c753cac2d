"""ControlledShutdown: before a broker stops, it asks the controller to move its leaderships to other brokers.

The answer names the partitions that no other broker can lead yet; the broker may retry.
"""

from __future__ import annotations

from broker.errors import NotControllerError, RequestError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


class ControlledShutdownHandler(Handler[ControlledShutdownRequest, ControlledShutdownResponse]):
    """Makes the controller move the leaderships of the broker."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: ControlledShutdownRequest, context: RequestContext) -> ControlledShutdownResponse:
        """See the module docstring.

        Raises RequestError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH if not the controller.
        """
        try:
            controller = self._services.acting_controller()
            remaining = await controller.relieve(request.broker_id, request.broker_epoch)
        except NotControllerError as error:
            raise RequestError(ErrorCode.STALE_CONTROLLER_EPOCH, str(error)) from None
        return ControlledShutdownResponse(
            remaining_partitions=[
                RemainingPartition(topic_name=topic, partition_index=partition) for topic, partition in remaining
            ]
        )

    def failed(self, request: ControlledShutdownRequest, code: ErrorCode) -> ControlledShutdownResponse:
        """Return the answer with the error; no leadership is moved."""
        return ControlledShutdownResponse(error_code=code)
