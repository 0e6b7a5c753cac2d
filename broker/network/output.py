"""Sends the answers of one connection, in order.

- Answers to frames of one read are joined and sent with one system call. Large answers are sent piece by piece.
- An answer may contain record ranges that are still on disk (`LazyRecords`). They are sent in steps, each when the
  socket has taken the previous one: for a slow reader, one step is in memory, not the whole answer.
- On an encrypted connection the steps are smaller.
- A range of a file is sent with sendfile if it is in the page cache and the connection is not encrypted. This takes a
  sixth to a third less CPU than pread and write (benchmarks/README.md), and no memory.
- While `queue` is not empty, nothing else may be sent: the connection handles no further request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from broker.network.closed import CLOSED_CONNECTION, CLOSED_TRANSPORT
from broker.network.direct_socket import DirectSocket
from broker.network.limits import READ_STEP_BYTES
from protocol.buffer import Buffer, LazyRecords
from storage.log.file_records import FileRecords

if TYPE_CHECKING:
    from broker.network.connection import Connection

Answer = list[Buffer | LazyRecords]
"""The pieces of one answer, in order, with the size prefix."""

JOIN_BYTES = 64 * 1024
"""Answers up to this size are joined with other answers to the same read, and sent with one system call."""

ENCRYPTED_STEP_BYTES = 128 * 1024
"""Record ranges are encrypted in steps of this size: larger ones take twice the CPU, most of it for fresh memory."""

_BUFFERS = (bytes, bytearray, memoryview)


class Output:
    """The sending half of a `Connection`. Closes the connection if records of an answer cannot be read."""

    __slots__ = (
        "_connection",
        "_direct",
        "_disk_step",
        "_max_step_bytes",
        "_position",
        "_transport",
        "_unsent_bytes",
        "is_paused",
        "joined",
        "joined_bytes",
        "queue",
    )

    def __init__(self, connection: Connection, transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport
        is_encrypted = transport.get_extra_info("sslcontext") is not None
        self._max_step_bytes = ENCRYPTED_STEP_BYTES if is_encrypted else READ_STEP_BYTES
        self.is_paused = False
        """True while the transport accepts no more data."""
        self.queue: deque[Buffer | LazyRecords] = deque()
        """The pieces that are still to be sent one by one."""
        self.joined: list[Buffer] = []
        """Answers to the frames of the current read: written after the last frame."""
        self.joined_bytes = 0
        self._position = 0  # how much of a lazy queue[0] has been sent
        self._disk_step = 0  # bytes of queue[0] that another thread is reading
        self._direct: DirectSocket | None = None  # set while queue is sent without the transport
        self._unsent_bytes = 0  # what the budget counts for this connection

    def lost(self) -> None:
        """Drop everything: the connection is closed."""
        self.queue.clear()
        self.joined.clear()
        self._close_direct()
        self._account_unsent(0)
        self._connection = cast("Connection", CLOSED_CONNECTION)
        self._transport = CLOSED_TRANSPORT

    def send(self, answer: Answer) -> None:
        """Send an answer: join a small one with those that follow at once, send a large one piece by piece."""
        size = len(answer[0])
        if len(answer) > 1:
            size = sum(map(len, answer))
        if size > JOIN_BYTES:
            self._send_by_pieces(answer)
            return
        whole = len(self.joined)
        try:
            for piece in answer:
                data = piece if isinstance(piece, _BUFFERS) else _checked(piece.read_now(0, len(piece)), len(piece))
                if data is None:  # not in memory
                    del self.joined[whole:]
                    self._send_by_pieces(answer)
                    return
                self.joined.append(data)
        except OSError as error:
            del self.joined[whole:]  # drop this answer, keep those before
            self._records_are_gone(error)
            return
        self.joined_bytes += size
        if self.joined_bytes > JOIN_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the joined answers."""
        joined = self.joined
        if joined and not self._connection.closed:
            self._transport.write(joined[0] if len(joined) == 1 else b"".join(joined))
        self.joined = []
        self.joined_bytes = 0

    def _send_by_pieces(self, answer: Answer) -> None:
        self.flush()
        self.queue.extend(answer)
        if any(isinstance(piece, FileRecords) and piece.can_send for piece in answer):
            self._direct = DirectSocket.of(self._transport)
        self.pump()

    def pump(self) -> None:
        """Write pieces until the queue is empty or the socket is full."""
        if self._direct is not None:
            self._pump_directly(self._direct)
            return
        queue = self.queue
        connection = self._connection
        while queue and not self.is_paused and not self._disk_step and not connection.closed:
            piece = queue[0]
            if isinstance(piece, _BUFFERS):
                queue.popleft()
                self._transport.write(piece)
                continue
            position = self._position
            step = min(len(piece) - position, connection.acceptor.budget.read_step_bytes, self._max_step_bytes)
            try:
                data = _checked(piece.read_now(position, step), step)
            except OSError as error:
                self._records_are_gone(error)
                return
            if data is None:
                self._read_from_disk(piece, position, step)
            else:
                self._write_step(piece, data)

    def _pump_directly(self, direct: DirectSocket) -> None:
        """Send one step without the transport, then let other connections have their turn."""
        queue = self.queue
        connection = self._connection
        left = connection.acceptor.budget.read_step_bytes
        while queue:
            if connection.closed:
                return
            piece = queue[0]
            try:
                if isinstance(piece, _BUFFERS):
                    wanted = len(piece)
                    sent: int | None = direct.send(piece, more=len(queue) > 1)
                elif isinstance(piece, FileRecords):
                    wanted = min(len(piece) - self._position, left)
                    sent = direct.send_file(piece, self._position, wanted)
                else:
                    sent = None
            except ConnectionError:
                connection.abort()
                return
            except OSError as error:
                self._records_are_gone(error)
                return
            if sent is None:  # not in memory: send the rest through the transport
                self._close_direct()
                self.pump()
                return
            left -= sent
            self._has_sent(piece, sent)
            if queue and (sent < wanted or left <= 0):
                direct.when_writable(connection.go_on)
                return
        self._close_direct()

    def _has_sent(self, piece: Buffer | LazyRecords, size: int) -> None:
        """Record that `size` bytes of queue[0] were sent directly."""
        if not isinstance(piece, _BUFFERS):
            self._step_is_out(piece, size)
        elif size == len(piece):
            self.queue.popleft()
        else:
            self.queue[0] = memoryview(piece)[size:]

    def _close_direct(self) -> None:
        if self._direct is not None:
            self._direct.close()
            self._direct = None

    def _write_step(self, piece: LazyRecords, data: Buffer) -> None:
        self._step_is_out(piece, len(data))
        self._transport.write(data)

    def _step_is_out(self, piece: LazyRecords, size: int) -> None:
        self._position += size
        if self._position >= len(piece):
            self.queue.popleft()
            self._position = 0

    def _read_from_disk(self, piece: LazyRecords, position: int, step: int) -> None:
        self._disk_step = step
        reading = self._connection.acceptor.run_later(piece.read_later(position, step))
        reading.add_done_callback(self._disk_was_read)

    def _disk_was_read(self, reading: asyncio.Future[Buffer]) -> None:
        step, self._disk_step = self._disk_step, 0
        if reading.cancelled():
            return
        failure = reading.exception()
        if self._connection.closed:
            return
        piece = self.queue[0]
        assert not isinstance(piece, _BUFFERS)
        data = b"" if failure is not None else reading.result()
        if len(data) != step:
            self._records_are_gone(failure or _short(len(data), step))
            return
        self._write_step(piece, data)
        self._connection.go_on()

    def _records_are_gone(self, error: BaseException) -> None:
        self._connection.close(f"records of an answer cannot be read: {error}")

    # -- the transport's flow control --------------------------------------------------------------------------------

    def pause(self) -> None:
        """The transport's buffer is full."""
        self.is_paused = True
        self._account_unsent(self._transport.get_write_buffer_size())

    def resume(self) -> None:
        """The transport's buffer is nearly empty."""
        self.is_paused = False
        self._account_unsent(0)

    def _account_unsent(self, unsent_bytes: int) -> None:
        self._connection.acceptor.budget.unsent_bytes += unsent_bytes - self._unsent_bytes
        self._unsent_bytes = unsent_bytes


def _checked(data: Buffer | None, size: int) -> Buffer | None:
    """Return the data of a record range. Raises OSError if the file is shorter than the range."""
    if data is not None and len(data) != size:
        raise _short(len(data), size)
    return data


def _short(got: int, size: int) -> OSError:
    return OSError(f"{got} bytes instead of {size}")
