"""Requests that only brokers send are answered only on the listeners between brokers."""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import AnyHandler, Handler, Later
from protocol.error_codes import ErrorCode
from protocol.message import Message


class BetweenBrokers(Handler[Message, Message]):
    """Refuses requests from another listener with CLUSTER_AUTHORIZATION_FAILED."""

    __slots__ = ("_handler", "_listener_names")

    def __init__(self, handler: AnyHandler, listener_names: frozenset[str]) -> None:
        self._handler = handler
        self._listener_names = listener_names

    def handle(self, request: Message, context: RequestContext) -> Message | Later[Message | None] | None:
        """Return the handler's answer, or a refusal."""
        if context.listener_name not in self._listener_names:
            return self.failed(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return self._handler.handle(request, context)

    def failed(self, request: Message, code: ErrorCode) -> Message:
        """Return the handler's answer for an error."""
        return self._handler.failed(request, code)
