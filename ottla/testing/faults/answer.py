"""The verb `answer`: requests of one API get another answer, or a late one, or none.

The fault applies to whole requests. A request that names several topics is answered so for all of them. Requests that
brokers send as clients do, such as the Fetch requests of followers, are only meant if the fault has their client id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from broker.authorization.rules import SENT_BY_BROKERS
from broker.network.connection import CloseConnectionError
from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import CountedFault, option
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.names import api_of, error_of
from ottla.testing.faults.request_faults import PASSED, Answer, Incoming, Passed
from ottla.testing.faults.scene import BrokerScene
from ottla.testing.faults.verb import Applied
from ottla.testing.request_topics import topics_of
from protocol.api_keys import ApiKey, response_class
from protocol.message import Message

_BEFORE_AUTHENTICATION = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


@dataclass(frozen=True, kw_only=True)
class AnswerFault(CountedFault):
    """Answer requests of an API with an error, an empty answer, late, or by closing the connection."""

    api: str = option("The API, by Kafka's name: Produce, Fetch, OffsetCommit, ….")
    error: str | None = option("Answer with this error, by Kafka's name: NOT_LEADER_OR_FOLLOWER, ….", None)
    empty: bool = option("Answer with a message whose fields have their default values.", False)
    close: bool = option("Close the connection instead of an answer.", False)
    delay_s: float = option("Wait this many seconds. Requests on the same connection wait, too.", 0.0)
    applied: bool = option("First do what the request asks for, then wait, and replace the answer.", False)
    client_id: str | None = option("Only requests with this client id.", None)
    topic: str | None = option("Only requests that name this topic.", None)
    broker: int | None = option("Only requests to the broker with this id.", None)

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        if api_of(self.api) in _BEFORE_AUTHENTICATION:
            raise FaultError(f"api={self.api}: requests with which clients authenticate cannot have faults")
        if self.error is not None:
            error_of(self.error)
        if self.delay_s < 0:
            raise FaultError(f"delay_s={self.delay_s:g}: must be 0 or more")
        kinds = [self.error is not None, self.empty, self.close]
        if sum(kinds) > 1:
            raise FaultError("error, empty and close exclude each other")
        if not any(kinds) and not self.delay_s:
            raise FaultError("answer needs one of error, empty, close and delay_s")


async def apply_answer(scene: BrokerScene, description: AnswerFault, fault: ActiveFault) -> Applied:
    """Answer requests as described, until the fault is healed."""
    scene.require(description.broker)
    key = api_of(description.api)
    rule = _Rule(scene, description, fault).answer
    scene.requests.add(key, rule)

    async def heal() -> None:
        scene.requests.remove(key, rule)

    return Applied({}, heal)


class _Rule:
    """See `request_faults.Rule`."""

    def __init__(self, scene: BrokerScene, description: AnswerFault, fault: ActiveFault) -> None:
        self._scene = scene
        self._description = description
        self._fault = fault

    def answer(self, incoming: Incoming) -> Answer | Literal[Passed.PASSED]:
        """Answer a request that the description means. Raises CloseConnectionError."""
        described = self._description
        waits = described.delay_s > 0
        if not self._matches(incoming) or not self._fault.take(waits=waits):
            return PASSED
        return self._later(incoming) if waits or described.applied else self._replaced(incoming)

    def _matches(self, incoming: Incoming) -> bool:
        described = self._description
        if described.broker is not None and described.broker != incoming.broker_id:
            return False
        if described.client_id is None:
            if self._is_of_a_broker(incoming):
                return False
        elif described.client_id != incoming.context.client_id:
            return False
        return described.topic is None or self._names_topic(incoming, described.topic)

    def _is_of_a_broker(self, incoming: Incoming) -> bool:
        """Return whether another broker sent a request that clients send, too: a Fetch of a follower, …."""
        return incoming.api.key not in SENT_BY_BROKERS and self._scene.is_of_broker(incoming.context)

    def _names_topic(self, incoming: Incoming, topic: str) -> bool:
        named = topics_of(incoming.request)
        broker = self._scene.running(incoming.broker_id)
        if topic in named.names or topic in map(broker.metadata.snapshot.topic_names.get, named.ids):
            return True
        if incoming.api.key is not ApiKey.FETCH or broker.services is None:
            return False
        return topic in broker.services.fetch_sessions.topics_of(incoming.request.session_id)

    async def _later(self, incoming: Incoming) -> Message | None:
        described = self._description
        replaces = described.error is not None or described.empty or described.close
        answer = await _handled(incoming) if described.applied else None
        if described.delay_s:
            await self._fault.wait(described.delay_s)
        if replaces:
            return self._replaced(incoming)
        return answer if described.applied else await _handled(incoming)

    def _replaced(self, incoming: Incoming) -> Message | None:
        described = self._description
        api, request = incoming.api, incoming.request
        wants_none = api.key is ApiKey.PRODUCE and request.acks == 0
        if described.error is not None and not wants_none:
            return incoming.handler.failed(request, error_of(described.error))
        if described.empty:
            return None if wants_none else response_class(api.key)()
        raise CloseConnectionError(f"fault {self._fault.id} of {api.name}")


async def _handled(incoming: Incoming) -> Message | None:
    """Have the broker answer a request, and wait for the answer."""
    answer = incoming.handle()
    return answer if answer is None or isinstance(answer, Message) else await answer
