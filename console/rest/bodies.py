"""The bodies of requests: bounded in size and time, and all together in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from console.rest.errors import RestError

MAX_BODY: Final = 16 * 1024 * 1024
"""Bytes of the body of one request, if it is not a stream."""
MAX_BODIES: Final = 64 * 1024 * 1024
"""Bytes of all bodies that are being read or answered."""
BODY_TIMEOUT_S: Final = 60.0
"""How long a body may take to arrive."""


class Bodies:
    """The bodies that are in memory: each from its first byte until its request is answered."""

    def __init__(
        self, max_body: int = MAX_BODY, max_bodies: int = MAX_BODIES, timeout_s: float = BODY_TIMEOUT_S
    ) -> None:
        """max_body, max_bodies: bytes of one body, and of all. timeout_s: for one body to arrive."""
        self._max_body = max_body
        self._max_bodies = max_bodies
        self._timeout_s = timeout_s
        self._held = 0

    @contextmanager
    def body(self) -> Iterator[Body]:
        """The body of one request, for as long as the request is answered."""
        body = Body(self._take, self._max_body, self._timeout_s)
        try:
            yield body
        finally:
            self._held -= body.size

    def _take(self, size: int) -> None:
        if self._held + size > self._max_bodies:
            raise RestError(503, "The console is reading too many large requests: try again.", retry_after_s=1)
        self._held += size


class Body:
    """The body of one request."""

    def __init__(self, take: Callable[[int], None], max_size: int, timeout_s: float) -> None:
        """take: counts bytes, or raises RestError."""
        self.size = 0
        """Bytes that are counted."""
        self._take = take
        self._max_size = max_size
        self._timeout_s = timeout_s

    async def read(self, request: web.Request) -> bytes:
        """Return all of it. Raises RestError: it is too large, too slow, or there are too many."""
        if (request.content_length or 0) > self._max_size:
            raise self._too_large()
        found = bytearray()
        try:
            async with asyncio.timeout(self._timeout_s):
                async for piece in request.content.iter_any():
                    if len(found) + len(piece) > self._max_size:
                        raise self._too_large()
                    self._take(len(piece))
                    self.size += len(piece)
                    found += piece
        except TimeoutError:
            raise RestError(408, f"The body of the request did not arrive within {self._timeout_s:g} s.") from None
        return bytes(found)

    def _too_large(self) -> RestError:
        return RestError(413, f"The body of the request is too large: at most {self._max_size} bytes.")
