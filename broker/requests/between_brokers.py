"""Requests that only brokers send are answered only on the listeners between brokers."""

from __future__ import annotations

import logging

from broker.requests.context import RequestContext
from broker.requests.handler import AnyHandler, Handler, Later
from protocol.error_codes import ErrorCode
from protocol.message import Message

logger = logging.getLogger(__name__)


class BetweenBrokers(Handler[Message, Message]):
    """Refuses requests from another listener with CLUSTER_AUTHORIZATION_FAILED, and logs the first one of a listener.

    Without this line, nobody would see why brokers with different inter-broker listeners wait for each other.
    """

    __slots__ = ("_api_name", "_handler", "_listener_names", "_logged")

    def __init__(self, api_name: str, handler: AnyHandler, listener_names: frozenset[str]) -> None:
        self._api_name = api_name
        self._handler = handler
        self._listener_names = listener_names
        self._logged: set[str] = set()

    def handle(self, request: Message, context: RequestContext) -> Message | Later[Message | None] | None:
        """Return the handler's answer, or a refusal."""
        if context.listener_name not in self._listener_names:
            self._log(context)
            return self.failed(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return self._handler.handle(request, context)

    def _log(self, context: RequestContext) -> None:
        if context.listener_name in self._logged:
            return
        self._logged.add(context.listener_name)
        logger.warning(
            "refused %s from %s on listener %s: without an authorizer, what only brokers send is answered only on %s."
            " If the sender is a broker with another inter.broker.listener.name, add the listener to"
            " ottla.inter.broker.listener.names. Further requests of this kind are not logged",
            self._api_name,
            context.client_address,
            context.listener_name,
            ", ".join(sorted(self._listener_names)),
        )

    def failed(self, request: Message, code: ErrorCode) -> Message:
        """Return the handler's answer for an error."""
        return self._handler.failed(request, code)
