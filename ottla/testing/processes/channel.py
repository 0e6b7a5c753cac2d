"""A channel between two processes: each asks the other and tells it something, as JSON, over a socket.

A frame is its length in four bytes and a JSON object: {"ask": number, …} expects {"answer": number, "result": …} or
{"answer": number, "error": TEXT}; an object without these two keys expects nothing. Frames arrive in the order in
which they were sent; the work on several of them may go on at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ottla.testing.faults.errors import FaultError

logger = logging.getLogger(__name__)

_LENGTH: Final = struct.Struct(">I")
Handle = Callable[[dict[str, Any]], Awaitable[Any]]


class ChannelClosedError(FaultError):
    """The process at the other end has ended."""

    def __init__(self) -> None:
        super().__init__("the process has ended")


class Channel:
    """One end. Create it in the event loop that runs it."""

    def __init__(self, end: socket.socket, handle: Handle) -> None:
        """end: one end of a pair of sockets. handle: does what a frame says, and returns the result, which is JSON."""
        self._end = end
        self._handle = handle
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None
        self._is_closed = False

    async def open(self) -> asyncio.Task[None]:
        """Start to read. Return the task, which ends when the other process ends."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._end)
        return asyncio.create_task(self._run(reader))

    async def ask(self, **frame: Any) -> Any:
        """Send a frame and return the result.

        Raises FaultError if the other end does, ChannelClosedError if it ends, RuntimeError for another error there.
        """
        if self._is_closed or self._writer is None:
            raise ChannelClosedError
        number = next(self._numbers)
        self._asked[number] = future = asyncio.get_running_loop().create_future()
        try:
            self.tell(ask=number, **frame)
            return await future
        finally:
            del self._asked[number]

    def tell(self, **frame: Any) -> None:
        """Send a frame, and expect nothing. Does nothing if the other process has ended."""
        if self._writer is not None and not self._is_closed:
            data = json.dumps(frame).encode()
            self._writer.write(_LENGTH.pack(len(data)) + data)

    def close(self) -> None:
        """Close the channel; the reading task ends."""
        if self._writer is not None:
            self._writer.close()
        else:
            self._end.close()

    async def _run(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                self._take(json.loads(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._is_closed = True
            self.close()
            for future in self._asked.values():
                if not future.done():
                    future.set_exception(ChannelClosedError())
            for task in self._work:
                task.cancel()

    def _take(self, frame: dict[str, Any]) -> None:
        if "answer" not in frame:
            task = asyncio.create_task(self._do(frame))
            self._work.add(task)
            task.add_done_callback(self._work.discard)
            return
        future = self._asked.get(frame["answer"])
        if future is None or future.done():
            return
        if "error" in frame:
            future.set_exception((FaultError if frame["is_fault"] else RuntimeError)(frame["error"]))
        else:
            future.set_result(frame["result"])

    async def _do(self, frame: dict[str, Any]) -> None:
        number = frame.pop("ask", None)
        answer: Mapping[str, Any]
        try:
            answer = {"result": await self._handle(frame)}
        except FaultError as error:
            answer = {"error": str(error), "is_fault": True}
        except Exception as error:
            logger.exception("%s failed", frame)
            answer = {"error": f"{type(error).__name__}: {error}", "is_fault": False}
        if number is not None:
            with contextlib.suppress(OSError):
                self.tell(answer=number, **answer)
