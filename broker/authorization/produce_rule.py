"""The rule of Produce, and the short way for topics that the user of a connection writes to again and again."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from broker.apis.produce import Appends
from broker.authorization.audit import logger as audit_logger
from broker.authorization.rule import ERRORS, Answer, Gate, Guarded, Need, Rule, after, part_of
from broker.network.connection import CloseConnectionError
from broker.requests.context import RequestContext
from broker.requests.handler import AnyHandler, Changed
from protocol.error_codes import ErrorCode
from protocol.message import Message
from protocol.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from security.acls.types import Operation, ResourceType

NO_TOPIC = ERRORS[ResourceType.TOPIC]
_DEBUG = logging.DEBUG
_levels: dict[int, bool] = audit_logger._cache  # type: ignore[attr-defined]  # private, in all versions of Python
"""What `Logger.isEnabledFor` has found since levels changed last: this saves its call."""


class ProduceRule(Rule):
    """Produce: Write on each topic, and on the transactional id. With acks=0, a refusal closes the connection.

    This is on the path of every record: `_Guarded` answers requests for topics that this user may write to.
    """

    __slots__ = ()
    _write = Need(ResourceType.TOPIC, Operation.WRITE)
    _write_id = Need(ResourceType.TRANSACTIONAL_ID, Operation.WRITE)
    needs = (_write, _write_id)

    def guard(self, handler: AnyHandler, gate: Gate) -> AnyHandler:
        """See `Rule`."""
        return _Guarded(self, handler, gate)

    def handle(self, handler: AnyHandler, request: ProduceRequest, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""
        transactional_id = request.transactional_id
        if transactional_id is not None and not gate.allows(context, self._write_id, transactional_id):
            if request.acks == 0:
                raise _unanswered(ERRORS[ResourceType.TRANSACTIONAL_ID])
            return handler.failed(request, ERRORS[ResourceType.TRANSACTIONAL_ID])
        for topic in request.topic_data:
            if not gate.allows(context, self._write, topic.name):
                return self._without_denied(handler, request, context, gate)
        gate.access.remember_writable(context.connection, [topic.name for topic in request.topic_data])
        return handler.handle(request, context)

    def _without_denied(
        self, handler: AnyHandler, request: ProduceRequest, context: RequestContext, gate: Gate
    ) -> Answer:
        """Append to the topics that the client may write to, and refuse the others."""
        denied: list[TopicProduceData] = []
        allowed: list[TopicProduceData] = []
        for topic in request.topic_data:
            (allowed if gate.allows(context, self._write, topic.name) else denied).append(topic)
        refused: Any = handler.failed(part_of(request, "topic_data", denied), NO_TOPIC)
        answer: Answer = ProduceResponse()
        if allowed:
            answer = handler.handle(part_of(request, "topic_data", allowed), context)
        if request.acks == 0:
            if answer is None or isinstance(answer, Message):
                raise _unanswered(NO_TOPIC)
            return Changed(answer, _close)

        def add(response: ProduceResponse) -> None:
            response.responses = [*response.responses, *refused.responses]

        return after(answer, add)


def _close(_: object) -> NoReturn:
    raise _unanswered(NO_TOPIC)


def _unanswered(code: ErrorCode) -> CloseConnectionError:
    return CloseConnectionError(f"Produce with acks=0 failed with {code.name}")


class _Guarded(Guarded):
    """The handler of Produce behind its rule. A topic that the rule has allowed before costs a look into a set."""

    __slots__ = ("_services",)

    def __init__(self, rule: Rule, handler: AnyHandler, gate: Gate) -> None:
        super().__init__(rule, handler, gate)
        self._services = gate.services

    def handle(self, request: ProduceRequest, context: RequestContext) -> Answer:
        """See `Handler`. A request for topics that the user may write to is answered as by the handler of the API."""
        writable = context.connection.writable
        if request.transactional_id is not None or _levels.get(_DEBUG, True):
            return self._rule.handle(self._handler, request, context, self._gate)
        for topic in request.topic_data:
            if topic.name not in writable:
                return self._rule.handle(self._handler, request, context, self._gate)
        return Appends(self._services, request, context).answer()
