"""The ways in which APIs are authorized: open to all, as a whole, or each part of a request separately.

A rule works on requests and answers, around the handler of an API: handlers know nothing of authorization. Where a part
of a request is refused, the handler gets a copy of the request without it, and `Handler.failed` makes the answer for
it.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from broker.authorization.access import Access
from broker.cluster.metadata_cache import Snapshot
from broker.requests.context import RequestContext
from broker.requests.handler import AnyHandler, CancelOnDisconnect, Changed, Handler, Later
from broker.services import Services
from protocol.api_keys import ApiKey, response_class
from protocol.error_codes import ErrorCode
from protocol.message import Message
from security.acls.binding import CLUSTER_NAME
from security.acls.types import Operation, ResourceType

ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error of an operation on a resource of this type that is not allowed."""

Answer: TypeAlias = Message | Later[Message | None] | None


class Need(NamedTuple):
    """An operation on a resource."""

    resource: ResourceType
    operation: Operation


class Gate:
    """Asks for one API what the clients of its requests may do."""

    __slots__ = ("access", "api", "services")

    def __init__(self, access: Access, services: Services, api: str) -> None:
        self.access = access
        self.api = api
        self.services = services

    @property
    def snapshot(self) -> Snapshot:
        """The metadata of this broker."""
        return self.services.metadata.snapshot

    @property
    def creates_topics(self) -> bool:
        """Whether this broker creates topics on first use."""
        return self.services.config.auto_create_topics_enable

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller."""
        return self.services.is_controller()

    def allows(self, context: RequestContext, need: Need, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may do this with the resource of this name; by default the cluster."""
        return self.access.allows(context, self.api, need.operation, need.resource, name)

    def sees(self, context: RequestContext, need: Need, name: str = CLUSTER_NAME) -> bool:
        """`allows` without a line in the audit log if it is denied."""
        return self.access.sees(context, need.operation, need.resource, name)


class Rule(ABC):
    """How one API is authorized. `needs`: every operation that it may ask for."""

    __slots__ = ("needs",)
    needs: tuple[Need, ...]

    def guard(self, handler: AnyHandler, gate: Gate) -> AnyHandler:
        """Return the handler of the API behind this rule."""
        return Guarded(self, handler, gate)

    @abstractmethod
    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """Answer a request, with the help of the API's handler as far as the client is allowed."""


class Open(Rule):
    """No operation is needed."""

    __slots__ = ()
    needs = ()

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""
        return handler.handle(request, context)


class Check:
    """A resource that a request names once, and an operation, or one of several, on it."""

    __slots__ = ("name", "needs")

    def __init__(
        self,
        resource: ResourceType,
        *operations: Operation,
        name: Callable[[Any, RequestContext], str | None] = lambda request, context: CLUSTER_NAME,
    ) -> None:
        """name: returns the name of the resource; None if a request needs nothing."""
        self.needs = tuple(Need(resource, operation) for operation in operations)
        self.name = name

    def refusal(self, request: Any, context: RequestContext, gate: Gate) -> ErrorCode | None:
        """Return the error if the client may not do it."""
        name = self.name(request, context)
        if name is None or any(gate.sees(context, need, name) for need in self.needs[:-1]):
            return None
        last = self.needs[-1]
        return None if gate.allows(context, last, name) else ERRORS[last.resource]


class Whole(Rule):
    """A request is answered, or refused as a whole: by the first of several checks that fails."""

    __slots__ = ("_checks", "_refuse")

    def __init__(self, *checks: Check, refuse: Callable[[Any, ErrorCode, int], Message] | None = None) -> None:
        """refuse: makes the answer to a refused request of a version; by default `Handler.failed`."""
        self._checks = checks
        self._refuse = refuse
        self.needs = tuple(need for check in checks for need in check.needs)

    def refusal(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Message | None:
        """Return the answer to a refused request; None if it is allowed."""
        for check in self._checks:
            code = check.refusal(request, context, gate)
            if code is not None:
                if self._refuse is not None:
                    return self._refuse(request, code, context.api_version)
                return handler.failed(request, code)
        return None

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""
        refused = self.refusal(handler, request, context, gate)
        if refused is not None:
            return refused
        return handler.handle(request, context)


Judge: TypeAlias = Callable[[Any, Any, RequestContext, Gate], ErrorCode | None]
"""Returns the error for one part of a request: called with the part and the request."""


def named(resource: ResourceType, operation: Operation, field: str | None = "name") -> Judge:
    """Return a judge that needs an operation on the resource that each part names.

    field: the attribute with the name; None if the parts are names.
    """
    need, code = Need(resource, operation), ERRORS[resource]

    def judge(part: Any, request: Any, context: RequestContext, gate: Gate) -> ErrorCode | None:
        return None if gate.allows(context, need, part if field is None else getattr(part, field)) else code

    return judge


Refuse: TypeAlias = Callable[[list[Any], ErrorCode], list[Any]]
"""Makes the answers for refused parts."""


class Each(Rule):
    """Each element of a list in the request is answered or refused separately. Checks of the whole come first."""

    __slots__ = ("_answers", "_judge", "_parts", "_refuse", "_whole")

    def __init__(
        self,
        parts: str,
        answers: str,
        judge: Judge,
        needs: Sequence[Need],
        *,
        checks: Sequence[Check] = (),
        refuse: Refuse | None = None,
    ) -> None:
        """parts, answers: the attributes with the lists in the request and in its answer.

        refuse: makes the answers for refused parts, if `Handler.failed` makes an answer without them.
        """
        self._parts = parts
        self._answers = answers
        self._judge = judge
        self._refuse = refuse
        self._whole = Whole(*checks)
        self.needs = (*self._whole.needs, *needs)

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""
        all_refused = self._whole.refusal(handler, request, context, gate)
        if all_refused is not None:
            return all_refused
        refused: dict[ErrorCode, list[Any]] = {}
        allowed: list[Any] = []
        for part in getattr(request, self._parts):
            code = self._judge(part, request, context, gate)
            (allowed if code is None else refused.setdefault(code, [])).append(part)
        if not refused:
            return handler.handle(request, context)
        answers = [one for code, parts in refused.items() for one in self._refused(handler, request, parts, code)]

        def add(response: Message) -> None:
            setattr(response, self._answers, [*getattr(response, self._answers), *answers])

        answer: Answer = response_class(ApiKey(request.API_KEY))()
        if allowed:
            answer = handler.handle(part_of(request, self._parts, allowed), context)
        return after(answer, add)

    def _refused(self, handler: AnyHandler, request: Any, parts: list[Any], code: ErrorCode) -> list[Any]:
        if self._refuse is not None:
            return self._refuse(parts, code)
        answers: list[Any] = getattr(handler.failed(part_of(request, self._parts, parts), code), self._answers)
        return answers


def each_topic(
    parts: str,
    answers: str,
    operation: Operation,
    *,
    field: str = "name",
    checks: Sequence[Check] = (),
    refuse: Refuse | None = None,
) -> Each:
    """Return the rule of an API whose requests list topics: each needs the operation."""
    need = Need(ResourceType.TOPIC, operation)
    return Each(parts, answers, named(*need, field), [need], checks=checks, refuse=refuse)


def part_of(request: Any, field: str, parts: list[Any]) -> Any:
    """Return a copy of a request with other elements in one of its lists."""
    copied = copy.copy(request)
    setattr(copied, field, parts)
    return copied


def after(answer: Answer, change: Callable[[Any], None]) -> Answer:
    """Let `change` change an answer, now or when it is there."""

    def changed(response: Message | None) -> Message | None:
        if response is not None:
            change(response)
        return response

    if answer is None or isinstance(answer, Message):
        return changed(answer)
    if isinstance(answer, CancelOnDisconnect):
        return answer.then(changed)
    return Changed(answer, changed)


class Guarded(Handler[Any, Message]):
    """The handler of an API behind its rule."""

    __slots__ = ("_gate", "_handler", "_rule")

    def __init__(self, rule: Rule, handler: AnyHandler, gate: Gate) -> None:
        self._rule = rule
        self._handler = handler
        self._gate = gate

    def handle(self, request: Any, context: RequestContext) -> Answer:
        """See `Handler`."""
        return self._rule.handle(self._handler, request, context, self._gate)

    def failed(self, request: Any, code: ErrorCode) -> Message:
        """See `Handler`."""
        return self._handler.failed(request, code)
