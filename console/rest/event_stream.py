"""Server-sent events: an answer that goes on until its reader leaves.

    async with event_stream(call) as events:
        async for _ in events.ticks(1.0):
            await events.send("changed", answer)
    return events.response

A stream ends after `MAX_STREAM_S` seconds, so that logins and rights are checked again: browsers open it again by
themselves. One console has `MAX_STREAMS` at the same time; none delays the console's stop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from aiohttp import web

from console.rest.errors import RestError

if TYPE_CHECKING:
    from console.rest.call import Call
    from console.rest.models import Answer

MAX_STREAMS: Final = 64
MAX_STREAM_S: Final = 600.0
KEEP_ALIVE_S: Final = 5.0
"""A stream without events sends a comment this often: so proxies keep it, and a reader that is gone is noticed."""
LOOK_S: Final = 0.5
"""How often a stream without events looks whether its reader is gone."""
CONTENT_TYPE: Final = "text/event-stream"
_HEADERS: Final = {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStreams:
    """The open streams of one console: the tasks of their handlers."""

    def __init__(self) -> None:
        self.open: set[asyncio.Task[object]] = set()

    async def end(self, _: object = None) -> None:
        """End all streams: a handler for the shutdown of the application, which would wait for them."""
        for task in self.open:
            task.cancel()


class EventStream:
    """One open stream."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self.response = response
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._ends_s = self._loop.time() + MAX_STREAM_S
        self._sent_s = self._loop.time()

    async def send(self, name: str, data: Answer) -> None:
        """Send one event. Waits while the reader does not read. Raises ConnectionError if it is gone."""
        await self._write(b"event: %b\ndata: %b\n\n" % (name.encode(), data.to_json()))

    async def ticks(
        self, period_s: float | Callable[[], float], changed: asyncio.Event | None = None
    ) -> AsyncIterator[None]:
        """Yield at once, and then once in each period; with `changed`, only if it was set meanwhile.

        A period that changes is a function. With `changed`, it is the shortest time between two changes. Ends when the
        reader is gone or the time is over.
        """
        yield
        while True:
            if changed is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await changed.wait()
            await asyncio.sleep(period_s() if callable(period_s) else period_s)
            if self._is_over:
                return
            if changed is None or changed.is_set():
                if changed is not None:
                    changed.clear()
                yield
            if self._loop.time() - self._sent_s >= KEEP_ALIVE_S:
                await self._write(b": nothing new\n\n")

    @property
    def _is_over(self) -> bool:
        transport = self._request.transport
        return transport is None or transport.is_closing() or self._loop.time() >= self._ends_s

    async def _write(self, event: bytes) -> None:
        self._sent_s = self._loop.time()
        await self.response.write(event)


@contextlib.asynccontextmanager
async def event_stream(call: Call) -> AsyncIterator[EventStream]:
    """Begin the answer. The block ends quietly when the reader is gone. Raises RestError if there are too many."""
    streams = call.services.streams
    if len(streams.open) >= MAX_STREAMS:
        raise RestError(503, f"{MAX_STREAMS} readers already get live data from this console; try again later.")
    task = asyncio.current_task()
    assert task is not None
    streams.open.add(task)
    try:
        response = web.StreamResponse(headers=_HEADERS)
        await response.prepare(call.request)
        with contextlib.suppress(ConnectionError):
            yield EventStream(call.request, response)
    finally:
        streams.open.discard(task)
