"""A connection's socket, written to past its transport: how record ranges go from file to socket without a copy.

The transport knows nothing of it, so it may be used only while the transport has nothing to send. It is a descriptor of
its own (event loops refuse to watch one that belongs to a transport, and a transport may close its own at any time),
open from the first to the last byte of one answer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Self

from protocol.buffer import Buffer
from storage.log.file_records import FileRecords

_MORE = getattr(socket, "MSG_MORE", 0)  # Linux: hold a packet that is not full for what follows


class DirectSocket:
    """Non-blocking writes to a transport's TCP socket."""

    __slots__ = ("_is_watched", "_loop", "_socket")

    def __init__(self, own: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = own
        self._loop = loop
        self._is_watched = False

    @classmethod
    def of(cls, transport: asyncio.Transport) -> Self | None:
        """The socket of a transport; None where it has none, is encrypted, closing, or still sending."""
        raw = transport.get_extra_info("socket")
        if raw is None or transport.is_closing() or transport.get_write_buffer_size():
            return None
        if transport.get_extra_info("sslcontext") is not None:
            return None
        try:
            own = socket.fromfd(raw.fileno(), raw.family, raw.type, raw.proto)
        except OSError:  # no descriptor left: the ordinary way needs none
            return None
        own.setblocking(False)
        return cls(own, asyncio.get_running_loop())

    def send(self, data: Buffer, *, more: bool) -> int:
        """Write what the socket takes (0 where it is full); `more` follows at once. Raises ConnectionError."""
        try:
            return self._socket.send(data, _MORE if more else 0)
        except (BlockingIOError, InterruptedError):
            return 0

    def send_file(self, records: FileRecords, offset: int, length: int) -> int | None:
        """Write bytes of the range from `offset` on, as many as the socket takes.

        0 where the socket is full; None where these bytes are not in memory. Raises OSError: ConnectionError for
        the socket's errors, others for the file's, also where it has become shorter than the range.
        """
        try:
            return records.send_now(self._socket.fileno(), offset, length)
        except (BlockingIOError, InterruptedError):
            return 0

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the socket takes more."""

        def writable() -> None:
            self._unwatch()
            callback()

        self._is_watched = True
        self._loop.add_writer(self._socket.fileno(), writable)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_writer(self._socket.fileno())

    def close(self) -> None:
        self._unwatch()
        self._socket.close()
