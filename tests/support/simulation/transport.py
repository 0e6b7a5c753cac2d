"""One end of a simulated TCP connection: asyncio's transport to its protocol, a socket to the network.

What arrives is kept by the kernel, whether or not the process runs; the protocol gets it in its process's context.
Data for an end that is closed is answered by a reset. A process that is killed has its sockets closed by the kernel;
a machine that loses its power says nothing at all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from support.simulation.link import Pipe
from support.simulation.process import NOBODY, SimulatedProcess

WINDOW_BYTES = 256 * 1024
HIGH_WATER_BYTES = 64 * 1024
LOW_WATER_BYTES = 16 * 1024

KEPT_BYTES = 64 * 1024

FIN = "FIN"
RESET = "RST"


class SimulatedTransport(asyncio.Transport):
    """One end. `connect` gives it its other end and its protocol."""

    def __init__(self, process: SimulatedProcess, peername: tuple[str, int], segment_bytes: Callable[[], int]) -> None:
        super().__init__({"peername": peername})
        self.process = process
        self.is_gone = False
        """Closed for good: connection_lost has been called or is about to be, or the process is dead."""
        self._segment_bytes = segment_bytes
        self._protocol: asyncio.BaseProtocol
        self._out: Pipe
        self._peer: SimulatedTransport
        self._closing = False
        self._buffer = bytearray()
        self._in_flight = 0
        self._write_paused = False
        self._read_paused = False
        self._received: deque[bytes | str] = deque()
        self._delivery: asyncio.Handle | None = None
        self.sent = bytearray()
        """The first bytes that were written."""

    def connect(self, peer: SimulatedTransport, out: Pipe) -> None:
        """Set the other end and the link to it."""
        self._peer, self._out = peer, out

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to its protocol."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._deliver_soon()

    # -- what protocols call -----------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        if self.is_gone or self._closing:
            return
        self._buffer += data
        if len(self.sent) < KEPT_BYTES:
            self.sent += data
        self._pump()
        if len(self._buffer) > HIGH_WATER_BYTES and not self._write_paused:
            self._write_paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """The number of bytes that the network has not accepted."""
        return len(self._buffer)

    def is_closing(self) -> bool:
        """True once nothing more can be sent."""
        return self._closing or self.is_gone

    def is_reading(self) -> bool:
        """True while arriving data are delivered."""
        return not self._read_paused

    def pause_reading(self) -> None:
        """Keep arriving data in the kernel."""
        self._read_paused = True

    def resume_reading(self) -> None:
        """Resume the delivery."""
        self._read_paused = False
        self._deliver_soon()

    def close(self) -> None:
        """Send what is buffered, then close."""
        if self.is_closing():
            return
        self._closing = True
        if not self._buffer:
            self._lose(None, FIN)

    def abort(self) -> None:
        """Close now."""
        if not self.is_gone:
            self._lose(None, FIN)

    # -- the kernel's side -------------------------------------------------------------------------------------------

    def arrive(self, item: bytes | str) -> None:
        """Receive data from the network."""
        if self.is_gone:
            if item is not FIN and item is not RESET:
                self._out.send(RESET)
            return
        if item is RESET:
            self._received.clear()
        self._received.append(item)
        self._deliver_soon()

    def kernel_closes(self, last_word: str | None) -> None:
        """Close the end of a dead process; the other end receives `last_word`, if it is given."""
        if self.is_gone:
            return
        self.is_gone = True
        if last_word is not None:
            self._out.send(last_word)
        self._out.close()

    def on_the_way(self) -> Pipe:
        """The pipe to the other end."""
        return self._out

    def _deliver_soon(self) -> None:
        if self._delivery is None and self._received and not self.is_gone and hasattr(self, "_protocol"):
            loop = asyncio.get_running_loop()
            self._delivery = loop.call_soon(self._deliver, context=self.process.context)

    def _deliver(self) -> None:
        self._delivery = None
        while self._received and not self.is_gone:
            item = self._received[0]
            if item is RESET:
                self._received.clear()
                self._lose(ConnectionResetError(104, "Connection reset by peer"), None)
                return
            if self._read_paused or self._closing:
                return
            self._received.popleft()
            if item is FIN:
                if not self._protocol.eof_received():  # type: ignore[attr-defined]
                    self.close()
                return
            assert isinstance(item, bytes)
            self._feed(item)
            self._peer.acknowledged(len(item))

    def _feed(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)  # type: ignore[attr-defined]
            return
        view = memoryview(data)
        while view and not self.is_gone:
            buffer = protocol.get_buffer(len(view))
            taken = min(len(buffer), len(view))
            assert taken, "the protocol offers no room"
            buffer[:taken] = view[:taken]  # type: ignore[index]
            view = view[taken:]
            protocol.buffer_updated(taken)
            if self._read_paused and view:
                self._received.appendleft(bytes(view))
                return

    def acknowledged(self, size: int) -> None:
        """Record how much the other process has read."""
        self._in_flight -= size
        if self._buffer and not self.is_gone:
            asyncio.get_running_loop().call_soon(self._pump_on, context=self.process.context)

    def _pump_on(self) -> None:
        if self.is_gone:
            return
        self._pump()
        if self._write_paused and len(self._buffer) <= LOW_WATER_BYTES:
            self._write_paused = False
            self._protocol.resume_writing()
        if self._closing and not self._buffer and not self.is_gone:
            self._lose(None, FIN)

    def _pump(self) -> None:
        while self._buffer and self._in_flight < WINDOW_BYTES:
            size = min(self._segment_bytes(), len(self._buffer))
            segment = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._in_flight += size
            self._out.send(segment)

    def _lose(self, error: Exception | None, last_word: str | None) -> None:
        self.is_gone = True
        self._buffer.clear()
        if last_word is not None:
            self._out.send(last_word)
        loop = asyncio.get_running_loop()
        loop.call_soon(self._protocol.connection_lost, error, context=self.process.context)
        loop.call_soon(self._out.close, context=NOBODY)
