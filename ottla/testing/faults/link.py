"""A connection of a client with a broker, at the broker's end, with what goes wrong with it.

A link stands between a transport and the broker's protocol, as protocol for the one and transport for the other. First
it reads the header of the first request, which has the client id. Then it steps aside: the transport calls the broker's
protocol, and the protocol's writes go to the transport directly, until a fault applies to the connection.

With TLS, the link is on the side of the broker: it begins when the handshake is complete, and sees what is decrypted.

While a fault applies, everything goes through two flows. The transport's socket is hidden from the broker, which would
send records past the transport.
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from ottla.testing.faults.flow import NORMAL, Conditions, Flow

_READ_BYTES: Final = 64 * 1024
_HIGH_BYTES: Final = 64 * 1024
"""A flow that holds more bytes than this stops its sender."""
_HIGH_HELD_BYTES: Final = 1024 * 1024
"""The same for a flow that is held."""
_unpack_header = struct.Struct(">ihhih").unpack_from
_HEADER_BYTES: Final = 14
_MAX_HEADER_BYTES: Final = 32 * 1024
"""A stream whose beginning has no end of a header after this is not Kafka's protocol."""
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_CONTROLLED_SHUTDOWN: Final = 7
"""The one API with a version (0) that has no client id."""


class Link(asyncio.BufferedProtocol):
    """One connection. `peer`: the address of the client's end; `local`: that of the broker's."""

    def __init__(
        self,
        broker_id: int,
        inner: asyncio.BufferedProtocol,
        *,
        made: Callable[[Link], bool],
        identified: Callable[[Link], None],
        ended: Callable[[Link], None],
        lost: Callable[[Link], None],
    ) -> None:
        """inner: the broker's protocol.

        made: called for a new connection; False refuses it. identified: called when the client id is known. ended:
        called when the client has closed its side. lost: called when the connection is closed.
        """
        self.broker_id = broker_id
        self.client_id: str | None = None
        self.peer: Any = None
        self.local: Any = None
        self._inner = inner
        self._made = made
        self._identified = identified
        self._ended = ended
        self._lost = lost
        self._transport: asyncio.Transport
        self._front: _Front
        self._in: Flow
        self._out: Flow
        self._buffer = bytearray(_READ_BYTES)
        self._first: bytearray | None = bytearray()  # the beginning of the stream until the client id is known
        self._is_aside = False
        self._inner_reads = True
        self._inner_writes = True
        self._transport_writes = True
        self._is_refused = False
        self._eof = False
        self._context: contextvars.Context

    # -- of the transport --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the connection on to the broker, unless it is refused."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass of it
        self._context = contextvars.copy_context()  # of the broker: see `change`
        self.peer = transport.get_extra_info("peername")
        self.local = transport.get_extra_info("sockname")
        self._in = Flow(self._deliver_in, self._deliver_end)
        self._out = Flow(self._transport.write, self._transport.write_eof)
        self._in.on_changed = self._control_reading
        self._out.on_changed = self._control_writing
        self._front = _Front(self, self._transport, self._out)
        self._is_refused = not self._made(self)
        if self._is_refused:
            self.reset()
        else:
            self._inner.connection_made(self._front)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`."""
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes of the client."""
        data = bytes(self._buffer[:nbytes])
        if self._first is not None:
            self._first += data
            if self._read_header(self._first) or len(self._first) > _MAX_HEADER_BYTES:
                self._first = None
                self._identified(self)
                if self._transport.is_closing():
                    return
        self._in.put(data)
        self._control_reading()
        self._step_aside()

    def eof_received(self) -> bool:
        """Pass the end of the stream on behind the bytes that wait. With TLS, that also closes the connection."""
        self._eof = True
        self._in.end()
        self._ended(self)
        return self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what waits, and tell the broker."""
        self._buffer = bytearray()  # at once: links and what they stand between refer to each other
        self._in.clear()
        self._out.clear()
        self._lost(self)
        if not self._is_refused:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        self._transport_writes = False
        self._control_writing()

    def resume_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        self._transport_writes = True
        self._inner_writes = False  # it may have been paused before the link stepped between
        self._control_writing()

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    @property
    def is_identified(self) -> bool:
        """Whether the header of the first request has arrived: from then on it is known whose connection it is."""
        return self._first is None

    @property
    def has_ended(self) -> bool:
        """Whether the client has closed its side."""
        return self._eof

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._transport.is_closing()

    def change(self, inbound: Conditions, outbound: Conditions) -> None:
        """Apply these conditions to the bytes for the broker, and to those of the broker.

        What this starts in the event loop belongs to the broker, and stops while the broker is paused.
        """
        self._context.copy().run(self._change, inbound, outbound)

    def _change(self, inbound: Conditions, outbound: Conditions) -> None:
        if self._transport.is_closing():
            return
        if (inbound, outbound) != (NORMAL, NORMAL):
            self._step_between()
        self._in.change(inbound)
        self._out.change(outbound)
        self._control_reading()
        self._control_writing()
        self._step_aside()

    def begin(self, inbound: Conditions, outbound: Conditions) -> None:
        """`change` of a connection that is new, or whose client id has become known."""
        self._in.change(inbound)
        self._out.change(outbound)

    def reset(self) -> None:
        """Close the connection at once; the client sees a reset, not an orderly end."""
        raw = self._transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def _step_between(self) -> None:
        if not self._is_aside:
            return
        self._is_aside = False
        self._buffer = bytearray(_READ_BYTES)
        _, high = self._transport.get_write_buffer_limits()
        self._inner_writes = self._transport_writes = self._transport.get_write_buffer_size() <= high
        self._transport.set_protocol(self)
        self._front.through_flow()

    def _step_aside(self) -> None:
        """Connect the broker and the transport directly if nothing is wrong and nothing waits."""
        if self._is_aside or self._first is not None or self._transport.is_closing():
            return
        if (self._in.conditions, self._out.conditions) != (NORMAL, NORMAL):
            return
        if not (self._in.is_empty and self._out.is_empty and self._transport_writes):
            return
        self._is_aside = True
        self._buffer = bytearray()
        self._front.directly()
        self._transport.set_protocol(self._inner)

    def _read_header(self, data: bytearray) -> bool:
        """Find the client id. Return False if bytes of the header are missing."""
        if len(data) < _HEADER_BYTES:
            return False
        _, api_key, version, _, size = _unpack_header(data)
        if size < 0 or (api_key == _CONTROLLED_SHUTDOWN and version == 0):
            return True
        if len(data) < _HEADER_BYTES + size:
            return False
        self.client_id = bytes(data[_HEADER_BYTES : _HEADER_BYTES + size]).decode("utf-8", "replace")
        return True

    # -- bytes for the broker ----------------------------------------------------------------------------------------

    def _deliver_in(self, view: memoryview) -> None:
        while view and self._inner_reads and not self._transport.is_closing():
            room = memoryview(self._inner.get_buffer(len(view)))
            size = min(len(room), len(view))
            room[:size] = view[:size]
            view = view[size:]
            self._inner.buffer_updated(size)
        if view:
            self._in.unread(view)

    def _deliver_end(self) -> None:
        if not self._inner.eof_received():
            self._front.close()

    def inner_reads(self, reads: bool) -> None:
        """The broker pauses or resumes reading."""
        self._inner_reads = reads
        self._in.is_blocked = not reads
        if self._is_aside:
            return
        self._control_reading()
        if reads:
            asyncio.get_running_loop().call_soon(self._go_on)  # not directly: the broker is in the middle of something

    def _go_on(self) -> None:
        if not self._transport.is_closing():
            self._in.pump()
            self._step_aside()

    def _control_reading(self) -> None:
        """Read from the client only while the broker takes its bytes, and not too many of them wait."""
        if self._is_aside or self._eof or self._transport.is_closing():
            return
        # In a blackhole, too: otherwise nobody would notice that the client closes the connection.
        high = _HIGH_HELD_BYTES if self._in.conditions.held else _HIGH_BYTES
        if self._inner_reads and self._in.size <= high:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # -- bytes of the broker -----------------------------------------------------------------------------------------

    def _control_writing(self) -> None:
        """Let the broker write only while the client takes its bytes, and not too many of them wait."""
        if self._is_aside or self._transport.is_closing():
            return
        writes = self._transport_writes and self._out.size <= _HIGH_BYTES
        if writes != self._inner_writes:
            self._inner_writes = writes
            if writes:
                self._inner.resume_writing()
            else:
                self._inner.pause_writing()


class _Front(asyncio.Transport):
    """The transport that the broker's protocol sees."""

    def __init__(self, link: Link, transport: asyncio.Transport, out: Flow) -> None:
        super().__init__()
        self._link = link
        self._transport = transport
        self._out = out
        self._is_direct = False
        self._is_closing = False
        self._write_late = self.write

    def directly(self) -> None:
        """Write to the transport without a detour."""
        self._is_direct = True
        self.write = self._transport.write  # type: ignore[method-assign]  # a call less for each answer

    def through_flow(self) -> None:
        """Write through the flow."""
        self._is_direct = False
        self.write = self._write_late  # type: ignore[method-assign]

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """See `asyncio.WriteTransport`."""
        if not self._is_closing:
            self._out.put(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """See `asyncio.WriteTransport`."""
        self.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See `asyncio.BaseTransport`. While a fault applies, there is no socket."""
        if name == "socket" and not self._is_direct and self._out.conditions != NORMAL:
            return default
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection when what waits is sent."""
        if self._is_direct or self._out.is_empty:
            self._transport.close()
        elif not self._is_closing:
            self._is_closing = True
            self._out.on_changed = self._close_when_sent

    def _close_when_sent(self) -> None:
        if self._out.is_empty:
            self._transport.close()

    def abort(self) -> None:
        """See `asyncio.WriteTransport`."""
        self._transport.abort()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See `asyncio.BaseTransport`."""
        raise NotImplementedError("the protocol of a broker's connection stays")

    def get_protocol(self) -> asyncio.BaseProtocol:
        """See `asyncio.BaseTransport`."""
        return self._transport.get_protocol()

    def pause_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        self._link.inner_reads(False)
        if self._is_direct:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        self._link.inner_reads(True)
        if self._is_direct:
            self._transport.resume_reading()

    def is_reading(self) -> bool:
        """See `asyncio.ReadTransport`."""
        return self._transport.is_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See `asyncio.WriteTransport`."""
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """See `asyncio.WriteTransport`."""
        return self._transport.get_write_buffer_size() + self._out.size

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """See `asyncio.WriteTransport`."""
        return self._transport.get_write_buffer_limits()

    def write_eof(self) -> None:
        """See `asyncio.WriteTransport`."""
        self._out.end()

    def can_write_eof(self) -> bool:
        """See `asyncio.WriteTransport`."""
        return self._transport.can_write_eof()
