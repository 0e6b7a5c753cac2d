"""Writes to a connection's socket without its transport: this sends record ranges from file to socket without a copy.

The transport does not notice these writes, so they are allowed only while the transport has nothing to send. The
socket has its own descriptor, because event loops refuse to watch one that belongs to a transport, and a transport may
close its descriptor at any time. It is open from the first to the last byte of one answer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Self

from protocol.buffer import Buffer
from storage.log.file_records import FileRecords

_MORE = getattr(socket, "MSG_MORE", 0)  # Linux: delay a packet that is not full, since more data follows


class DirectSocket:
    """Non-blocking writes to a transport's TCP socket."""

    __slots__ = ("_is_watched", "_loop", "_socket")

    def __init__(self, own: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = own
        self._loop = loop
        self._is_watched = False

    @classmethod
    def of(cls, transport: asyncio.Transport) -> Self | None:
        """Return the socket of a transport; None if it has none, is encrypted, closing, or still sending."""
        raw = transport.get_extra_info("socket")
        if raw is None or transport.is_closing() or transport.get_write_buffer_size():
            return None
        if transport.get_extra_info("sslcontext") is not None:
            return None
        try:
            own = socket.fromfd(raw.fileno(), raw.family, raw.type, raw.proto)
        except OSError:  # no descriptor is free: the transport needs none
            return None
        own.setblocking(False)
        return cls(own, asyncio.get_running_loop())

    def send(self, data: Buffer, *, more: bool) -> int:
        """Write what the socket takes; 0 if it is full. more: more data follows at once. Raises ConnectionError."""
        try:
            return self._socket.send(data, _MORE if more else 0)
        except (BlockingIOError, InterruptedError):
            return 0

    def send_file(self, records: FileRecords, offset: int, length: int) -> int | None:
        """Write bytes of the range from `offset` on, as many as the socket takes.

        Return 0 if the socket is full; None if these bytes are not in memory. Raises ConnectionError for errors of the
        socket; another OSError for errors of the file, also if the file has become shorter than the range.
        """
        try:
            return records.send_now(self._socket.fileno(), offset, length)
        except (BlockingIOError, InterruptedError):
            return 0

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the socket can take more."""

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
