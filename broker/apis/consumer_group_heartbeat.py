"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group (KIP-848).

The answer waits until the changes are committed.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from broker.coordinator.consumer.membership import Client, refusal
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


class ConsumerGroupHeartbeatHandler(Handler[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse | Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
        """See the module docstring."""
        client = Client(context.client_id or "", f"/{context.client_address}")
        return self._services.coordination.groups.consumer_heartbeat(request, context.api_version, client)

    def failed(self, request: ConsumerGroupHeartbeatRequest, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        """Return the answer with the error; the group does not change."""
        return refusal(code)
