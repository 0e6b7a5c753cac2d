"""One client connection: receives frames and sends answers, in order.

A frame is a big-endian int32 length and that many bytes. Frames are slices of one growable bytearray that the transport
fills (`BufferedProtocol`: no copy between socket and handler). One request is in progress at a time, and the next frame
is handled only when the answer to the previous one has been passed to the socket. Kafka guarantees this order to
pipelining clients. It is also the backpressure on a client that does not read.

Rules that are easy to break:
- The buffer grows by the bytes *received* (doubling), never by the length that a frame announces: a thousand clients
  that announce 100 MB and stall cost only what they have sent.
- While a request is in progress, its frame is a view of the buffer, so the buffer is neither moved nor replaced. Bytes
  that arrive meanwhile fill the free tail; when the tail is full, reading pauses.
- A muted connection (its client has exceeded a quota) handles no frame until its time is over; those that have arrived
  wait in the buffer, and reading pauses when that is full. Answers are sent.
- A client that has shut down its writing side still gets the answers to its earlier requests, as from Kafka, which
  notices the end of the stream only when it has answered everything before it. But a request that waits for longer than
  CLOSE_LINGER_S is abandoned, since a client that has disappeared looks the same.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import struct
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from broker.network.closed import CLOSED_TRANSPORT
from broker.network.output import Answer, Output
from broker.quotas.client_quotas import UNKNOWN_LIMITS
from security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from broker.network.acceptor import Acceptor

logger = logging.getLogger(__name__)

MIN_CAPACITY_BYTES = 8 * 1024
LARGE_FRAME_BYTES = 64 * 1024

_unpack_size = struct.Struct(">i").unpack_from
_LENGTH_BYTES = 4
_FRAME_LIMIT_SETTING = "socket.request.max.bytes"
CLOSE_LINGER_S = 5.0
"""How long a connection that is closed with unsent answers may take to send them."""


class CloseConnectionError(Exception):
    """Raised by a frame handler to close the connection. The text is the reason for the log line.

    answer: a last answer to send before.
    """

    def __init__(self, reason: str, answer: Answer | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


class PendingAnswer(Protocol):
    """An answer that is not available yet."""

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, from the event loop, when `result` is available."""

    def result(self) -> Answer | None:
        """Return the answer; None if the request wants none. Raises CloseConnectionError."""

    def abandon(self) -> None:
        """Stop waiting if possible: the client has disconnected."""


HandleFrame: TypeAlias = "Callable[[memoryview, Connection], Answer | PendingAnswer | None]"
"""Answers one frame without its size prefix. Raises CloseConnectionError."""


_NUMBERS = itertools.count(1)


class Connection(asyncio.BufferedProtocol):
    """The server's side of one TCP connection."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor
        self.number = next(_NUMBERS)
        """Higher than those of earlier connections, of all listeners."""
        self.host = "?"
        self.port = 0
        self._principal: Principal = ANONYMOUS
        self.writable: Collection[str] = ()  # topics that `broker.authorization` remembers for this user
        self.limits = UNKNOWN_LIMITS  # what `broker.quotas` remembers for this user and a client id
        self.is_token_login = False  # the client has logged in with a delegation token
        self.takes_empty_frames = False  # while frames are bare tokens of SASL, one of which may be empty
        self.handle_frame: HandleFrame = acceptor.handle_frame  # another one until the client is authenticated
        self._frame_limit = acceptor.max_request_bytes
        self._frame_limit_setting = _FRAME_LIMIT_SETTING
        self.last_active_s = 0.0
        self.closed = False
        self._transport: asyncio.Transport  # set by connection_made, the first call of a protocol
        self._output: Output  # set by connection_made
        self._buffer = bytearray(MIN_CAPACITY_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0  # 0 <= start <= end <= limit <= len(buffer): [start, end) is received and not yet handled
        self._end = 0
        self._limit = MIN_CAPACITY_BYTES
        self._held = False  # not read until admitted: a limit on connections or memory is reached
        self._reading_paused = False
        self._linger: asyncio.TimerHandle | None = None
        self._muted: asyncio.TimerHandle | None = None  # set while no frame is handled because of a quota
        self._eof = False  # the client sends no more: close when all its requests are answered
        self._reserved = False  # memory of queued.max.request.bytes for the frame that is incomplete or in progress
        self._pending: PendingAnswer | None = None

    @property
    def principal(self) -> Principal:
        """The user."""
        return self._principal

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self._principal = principal
        self.writable, self.limits = (), UNKNOWN_LIMITS  # those were of another user

    # -- life cycle ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass of it
        self._output = Output(self, self._transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.host, self.port = str(peer[0]), int(peer[1])
        self.last_active_s = self.acceptor.now_s()
        self.acceptor.budget.receive_bytes += len(self._buffer)
        self.acceptor.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._output.lost()
        if self._linger is not None:
            self._linger.cancel()
        if self._muted is not None:
            self._muted.cancel()
        self._release_memory()
        self._use_buffer(bytearray())
        self._start = self._end = self._limit = 0
        self._transport = CLOSED_TRANSPORT
        if self._pending is not None:
            self._pending.abandon()
        self.acceptor.disconnected(self)

    def close(self, reason: str) -> None:
        """Close and log the reason. Handle nothing more; answers that were passed on before are still sent."""
        if self.closed:
            return
        logger.info(
            "closing connection from %s:%d on listener %s: %s",
            self.host,
            self.port,
            self.acceptor.name,
            reason,
        )
        self._output.flush()
        if self._output.queue or not self._transport.get_write_buffer_size():
            self.abort()
            return
        self._close_when_sent()

    def _close_when_sent(self) -> None:
        self.closed = True
        self._transport.close()
        self._linger = self.acceptor.call_later(CLOSE_LINGER_S, self._transport.abort)

    def abort(self) -> None:
        """Close at once, without a log line."""
        self.closed = True
        self._transport.abort()

    def hold(self) -> None:
        """Do not read from this connection until `admit`: a limit on connections or memory is reached."""
        self._held = True
        self._pause_reading()

    def admit(self) -> None:
        """Start reading from a held connection."""
        self._held = False
        if self._start < self._end or self._eof:  # see `buffer_updated`
            self.acceptor.call_soon(self._go_on_unless_held)
        else:
            self._resume_reading()

    def _go_on_unless_held(self) -> None:
        if not self._held:  # another limit may hold it again at once
            self._handle_frames()

    def mute(self, seconds: float) -> None:
        """Send the answers that are passed on, but handle no frame for this time (KIP-219)."""
        if self.closed:
            return
        if self._muted is not None:
            self._muted.cancel()
        self._muted = self.acceptor.call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        if not self.closed:
            self._go_on_unless_held()

    def set_socket_buffers(self, send_bytes: int, receive_bytes: int) -> None:
        """Set SO_SNDBUF and SO_RCVBUF; -1 leaves the system's size."""
        raw = self._transport.get_extra_info("socket")
        if raw is None:
            return  # a simulated network
        if send_bytes != -1:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        if receive_bytes != -1:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)

    def limit_frames(self, size: int, setting: str = _FRAME_LIMIT_SETTING) -> None:
        """Close the connection if a frame is larger than `size`; `setting` is for the log line."""
        self._frame_limit, self._frame_limit_setting = size, setting

    @property
    def is_busy(self) -> bool:
        """True while a request is in progress or the connection is muted: then never idle.

        A client that does not read its answers is idle.
        """
        return self._pending is not None or self._muted is not None

    # -- receiving -------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._end : self._limit]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        if self._held:
            # Although connection_made has paused reading, uvloop reads once, and asyncio of Python 3.11.2 goes on:
            # there, another pause needs a resume before it. What has been read waits here.
            self._reading_paused = False
            self._transport.resume_reading()
            self._pause_reading()
            return
        self._handle_frames()

    def eof_received(self) -> bool:
        """Keep the transport while there is a request to answer (see the rules of the module)."""
        self._eof = True
        if self._pending is not None:
            self._linger = self.acceptor.call_later(CLOSE_LINGER_S, self._give_up_waiting)
        return self._is_occupied_after_eof or self._held

    def _give_up_waiting(self) -> None:
        """Abort a wait: the client has probably disappeared, and a long poll of hours must not outlive it."""
        if self._pending is not None:
            self.abort()

    @property
    def _is_occupied(self) -> bool:
        """True while the next frame has to wait."""
        return self._muted is not None or self._is_answering

    @property
    def _is_occupied_after_eof(self) -> bool:
        """True while the client, which sends no more, is to get answers: the time of muting only matters to frames."""
        return self._is_answering or (self._muted is not None and self._start < self._end)

    @property
    def _is_answering(self) -> bool:
        """True while an answer is not sent yet."""
        return self._pending is not None or bool(self._output.queue) or self._output.is_paused

    def _handle_frames(self) -> None:
        """Handle complete frames until one has to wait, then make room for the next bytes."""
        self.last_active_s = self.acceptor.now_s()
        output = self._output
        while (
            self._pending is None
            and self._muted is None
            and not output.queue
            and not output.is_paused
            and not self.closed
        ):
            start = self._start
            if self._end - start < _LENGTH_BYTES:
                break
            (size,) = _unpack_size(self._buffer, start)
            if (size <= 0 or size > self._frame_limit) and not (size == 0 and self.takes_empty_frames):
                self.close(
                    f"a frame announces {size} bytes; allowed are 1 to {self._frame_limit} "
                    f"({self._frame_limit_setting})"
                )
                return
            frame_end = start + _LENGTH_BYTES + size
            if frame_end > self._end:
                break
            self._start = frame_end
            self._handle_frame(self._view[start + _LENGTH_BYTES : frame_end])
            if self._reserved and self._pending is None:
                self._release_memory()
        if output.joined:
            output.flush()
        if self.closed:
            return
        if self._eof and not self._is_occupied_after_eof:
            self._close_when_sent()
            return
        self._make_room()

    def _handle_frame(self, frame: memoryview) -> None:
        try:
            answer = self.handle_frame(frame, self)
        except CloseConnectionError as error:
            self._end_with(error)
            return
        except Exception:
            self._fail()
            return
        if answer is None:
            return
        if isinstance(answer, list):
            self._output.send(answer)
            return
        self._pending = answer
        answer.on_ready(self._pending_is_ready)

    def _pending_is_ready(self) -> None:
        pending = self._pending
        if pending is None:
            return
        self._pending = None
        try:
            answer = pending.result()  # also if the client has disconnected: to log errors and count requests
        except CloseConnectionError as error:
            self._end_with(error)
            return
        except Exception:
            self._fail()
            return
        if self.closed:
            return
        self._release_memory()
        if answer is not None:
            self._output.send(answer)
        self._handle_frames()

    def _end_with(self, error: CloseConnectionError) -> None:
        if error.answer is not None and not self.closed:
            self._output.send(error.answer)
        self.close(str(error))

    def _fail(self) -> None:
        """Close this connection after a bug; others are not affected."""
        logger.exception("a request from %s:%d failed unexpectedly", self.host, self.port)
        self.close("a request failed unexpectedly")

    def _make_room(self) -> None:
        """Place the unhandled bytes so that more can be read; pause reading if the buffer must not change."""
        if self._start == self._end and self._pending is None:
            if len(self._buffer) > LARGE_FRAME_BYTES and self.acceptor.budget.receive_buffers_are_many:
                self._replace_buffer(MIN_CAPACITY_BYTES)
            self._start = self._end = 0
            self._limit = len(self._buffer)
        elif not self._is_occupied:  # else complete frames may be waiting, and answers are being sent
            self._place_partial_frame()
        if self._end < self._limit:
            self._resume_reading()
        else:
            self._pause_reading()

    def _place_partial_frame(self) -> None:
        """Set `limit` for an incomplete frame; move the frame to the front or to a larger buffer if necessary.

        A large frame is read exactly to its end, so that the next frame starts at the front and is never moved.
        """
        received = self._end - self._start
        capacity = len(self._buffer)
        wanted = capacity
        if received >= _LENGTH_BYTES:
            wanted = _LENGTH_BYTES + _unpack_size(self._buffer, self._start)[0]
            if wanted > MIN_CAPACITY_BYTES and not self._reserved:
                self._reserved = True
                self.acceptor.budget.reserve(self, wanted)
        if self._start + min(wanted, capacity) > capacity or self._end == capacity:
            if received == capacity:
                capacity = min(capacity * 2, wanted)
                self._replace_buffer(capacity)
            else:
                self._view[:received] = self._view[self._start : self._end]
            self._start, self._end = 0, received
        frame_end = self._start + wanted
        self._limit = frame_end if wanted >= LARGE_FRAME_BYTES and self._end < frame_end <= capacity else capacity

    def _replace_buffer(self, capacity: int) -> None:
        """Move the unhandled bytes to the front of a new buffer. Views of the old buffer stay valid."""
        received = self._end - self._start
        buffer = bytearray(capacity)
        buffer[:received] = self._view[self._start : self._end]
        self._use_buffer(buffer)

    def _use_buffer(self, buffer: bytearray) -> None:
        self.acceptor.budget.receive_bytes += len(buffer) - len(self._buffer)
        self._buffer, self._view = buffer, memoryview(buffer)

    def _release_memory(self) -> None:
        if self._reserved:
            self._reserved = False
            self.acceptor.budget.release(self)

    def release_idle_buffer(self) -> None:
        """Free a large receive buffer that is empty. Called for idle connections."""
        if self._pending is None and self._start == self._end and len(self._buffer) > MIN_CAPACITY_BYTES:
            self._replace_buffer(MIN_CAPACITY_BYTES)
            self._start = self._end = 0
            self._limit = MIN_CAPACITY_BYTES

    def _pause_reading(self) -> None:
        if self._eof or self._reading_paused:
            return
        if not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._held or self._eof or not self._reading_paused:
            return
        if self._transport.is_closing():
            return
        self._reading_paused = False
        self._transport.resume_reading()

    # -- sending ---------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._output.pause()

    def resume_writing(self) -> None:
        self._output.resume()
        self.acceptor.call_soon(self.go_on)  # not directly: asyncio's transport cannot be closed within this call

    def go_on(self) -> None:
        """The socket takes more: send what is queued, then handle frames that have arrived meanwhile."""
        self._output.pump()
        self._handle_frames()
