"""The requests of one connection that wait for their answers, in the order in which they were written. No I/O."""

from __future__ import annotations

import asyncio
from collections import deque

from client.errors import KafkaError
from client.wire.frame_buffer import FrameError
from client.wire.frames import correlation_id_of, decode_response
from protocol.message import Message


class InFlight:
    """A request that waits for its answer."""

    __slots__ = ("api_key", "api_version", "correlation_id", "deadline_s", "future", "response")

    def __init__(
        self,
        correlation_id: int,
        api_key: int,
        api_version: int,
        response: type[Message],
        future: asyncio.Future[Message],
        deadline_s: float,
    ) -> None:
        """deadline_s: of the clock of the event loop."""
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.api_version = api_version
        self.response = response
        self.future = future
        self.deadline_s = deadline_s


class RequestsInFlight:
    """The requests that wait: the oldest is answered next. During a login, those of the login come before held ones."""

    def __init__(self) -> None:
        self._requests: deque[InFlight] = deque()
        self._held = 0
        """How many of them, the newest, are held back until a login has ended."""

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def oldest_is_cancelled(self) -> bool:
        """Whether nobody waits for the answer of the oldest request any more."""
        return bool(self._requests) and self._requests[0].future.cancelled()

    def add(self, request: InFlight, *, is_held: bool) -> None:
        """Add a request that was written, or that is held back."""
        self._requests.append(request)
        if is_held:
            self._held += 1

    def add_login(self, request: InFlight) -> None:
        """Add a request of a login: it was written before those that are held back."""
        self._requests.insert(len(self._requests) - self._held, request)

    def release(self) -> None:
        """The requests that were held back are written."""
        self._held = 0

    def answer(self, frame: bytes | memoryview) -> None:
        """Decode the answer of the oldest request. Raises FrameError for another correlation id, ProtocolError."""
        request = self._requests[0]
        correlation_id = correlation_id_of(frame)
        if request.correlation_id != correlation_id:
            raise FrameError(f"correlation id {correlation_id}, expected {request.correlation_id}")
        if not request.future.done():  # else the request was cancelled
            message = decode_response(frame, request.api_key, request.api_version, request.response)
            request.future.set_result(message)
        self._requests.popleft()

    def overdue(self, now_s: float) -> InFlight | None:
        """Return the oldest request whose deadline has passed and that somebody waits for."""
        return next((one for one in self._requests if one.deadline_s <= now_s and not one.future.done()), None)

    def next_deadline_s(self) -> float | None:
        """Return the earliest deadline of the requests that somebody waits for."""
        return min((one.deadline_s for one in self._requests if not one.future.done()), default=None)

    def fail_all(self, error: KafkaError) -> None:
        """The connection has ended."""
        failed, self._requests = self._requests, deque()
        for request in failed:
            if not request.future.done():
                request.future.set_exception(error)
