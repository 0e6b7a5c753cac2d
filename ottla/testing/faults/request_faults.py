"""Where faults get between the requests of brokers and their handlers.

A rule is called with every request of its API, before the handler. It answers the request, or passes it on. The first
rule that answers wins. Without rules, a request costs one call more.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from broker.requests.api_table import Api, WrapHandler
from broker.requests.context import RequestContext
from broker.requests.handler import AnyHandler, Handler, Later
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.message import Message

Answer: TypeAlias = Message | Later[Message | None] | None
"""What a handler returns."""


class Passed(Enum):
    """The type of `PASSED`."""

    PASSED = 0


PASSED: Final = Passed.PASSED
"""Returned by a rule that does not answer a request."""


class Incoming(NamedTuple):
    """One request that has arrived at a broker."""

    broker_id: int
    api: Api
    request: Any
    context: RequestContext
    handler: AnyHandler

    def handle(self) -> Answer:
        """Have the broker answer the request."""
        return self.handler.handle(self.request, self.context)


Rule: TypeAlias = Callable[[Incoming], Answer | Literal[Passed.PASSED]]
"""Answers a request, or returns PASSED. Raises CloseConnectionError to close the connection."""


class RequestFaults:
    """The rules for the requests of all brokers of a cluster."""

    def __init__(self) -> None:
        self._rules: dict[ApiKey, list[Rule]] = {}

    def add(self, key: ApiKey, rule: Rule) -> None:
        """Call `rule` with every request of an API, after the rules that were added before."""
        self._of(key).append(rule)

    def remove(self, key: ApiKey, rule: Rule) -> None:
        """Remove a rule that was added."""
        self._of(key).remove(rule)

    def wrapper(self, broker_id: int) -> WrapHandler:
        """Return what wraps the handlers of a broker."""

        def wrap(api: Api, handler: AnyHandler) -> AnyHandler:
            return _Ruled(broker_id, api, handler, self._of(api.key))

        return wrap

    def _of(self, key: ApiKey) -> list[Rule]:
        return self._rules.setdefault(key, [])


class _Ruled(Handler[Any, Message]):
    """The handler of an API behind the rules of its requests."""

    __slots__ = ("_api", "_broker_id", "_handler", "_rules")

    def __init__(self, broker_id: int, api: Api, handler: AnyHandler, rules: list[Rule]) -> None:
        self._broker_id = broker_id
        self._api = api
        self._handler = handler
        self._rules = rules

    def handle(self, request: Any, context: RequestContext) -> Answer:
        """See `Handler`."""
        if self._rules:
            incoming = Incoming(self._broker_id, self._api, request, context, self._handler)
            for rule in list(self._rules):
                answer = rule(incoming)
                if answer is not PASSED:
                    return answer
        return self._handler.handle(request, context)

    def failed(self, request: Any, code: ErrorCode) -> Message:
        """See `Handler`."""
        return self._handler.failed(request, code)
