"""One connection of a client: its frames, its session, and the order of its requests and answers.

The first frame opens a session or goes on with one; or the first four bytes are a command (`ruok`), whose answer ends
the connection. Then requests are answered in the order in which they arrive, as ZooKeeper guarantees: a read sees the
writes before it and none after it. Writes in a row are given to the store at once, so that they share a commit.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from registry.embedded.access import Caller, Identity
from registry.errors import RegistryError
from registry.interface import MAX_REQUEST_BYTES
from registry.server import jute
from registry.server.codes import ErrorCode, OpCode, code_of
from registry.server.jute import JuteError, JuteReader
from registry.server.operations import Read, RefusedError, View, Write, parse
from registry.server.watches import Watches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.embedded.tree import NodeChange
    from registry.server.server import RegistryServer
    from registry.server.session import ServerSession, Timer
    from registry.server.watches import Event

logger = logging.getLogger(__name__)

_HANDSHAKE_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 5.0  # that a client has to read what was sent before the end
_MAX_CONNECT_BYTES = 1024
_MAX_WAITING = 1000  # requests that a client may have under way before its connection is not read any more
_MAX_WAITING_BYTES = 4 << 20  # of these requests
_MAX_READS_IN_A_TURN = 100  # of the event loop, so that other clients get their turn
_MAX_IDENTITIES = 16  # of a connection
_MAX_SECRET_BYTES = 1024  # user and password of an auth packet
_MAX_UNREAD_BYTES = 16 << 20  # that a client may leave unread before events end its connection
_WATCH_EVENT_XID = -1
_SYNC_CONNECTED = 3  # the state in an event
_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f]")


class _Request:
    """A request that waits for its turn."""

    __slots__ = ("future", "is_last", "size", "todo", "xid")

    def __init__(self, xid: int, todo: Read | Write | ErrorCode | None, *, is_last: bool = False) -> None:
        """todo: an error code is answered as it is; None for the end of the session. is_last: then close."""
        self.xid = xid
        self.todo = todo
        self.is_last = is_last
        self.size = 0  # bytes of its frame
        self.future: asyncio.Future[Any] | None = None  # of a write that was given to the store


class _Opening(_Request):
    """The first frame of a connection: it is answered when the session is durable."""

    __slots__ = ("knows_read_only",)

    def __init__(self, knows_read_only: bool, opened: asyncio.Future[None]) -> None:
        super().__init__(0, None)
        self.knows_read_only = knows_read_only
        self.future = opened


class ServerConnection(asyncio.Protocol):
    """One connection, from accept to close."""

    def __init__(self, server: RegistryServer) -> None:
        self.address = "?"
        self.host = "?"
        self.received = 0  # packets
        self.sent = 0
        self.session: ServerSession | None = None
        self.watches = Watches()
        self._server = server
        self._store = server.store
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._identities: tuple[Identity, ...] = ()
        self._waiting: deque[_Request] = deque()
        self._writes: deque[_Request] = deque()  # given to the store, not answered yet
        self._waiting_bytes = 0
        self._is_read = True
        self._is_paused = False  # the client does not read the answers
        self._is_crowded = False  # too many requests wait
        self._is_turn_planned = False  # the client has sent more reads than one turn answers
        self._timer: Timer | None = None  # of the handshake, then of the end

    @property
    def outstanding(self) -> int:
        """How many requests wait for an answer."""
        return len(self._waiting) + len(self._writes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the client's address, which is one of its identities."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are no asyncio.Transport
        self.host, port = self._transport.get_extra_info("peername")[:2]
        self.address = f"{self.host}:{port}"
        if self._server.is_closing:
            self._transport.abort()
            return
        if not self._server.has_room_for(self.host):
            logger.warning("%s: refused: too many connections", self.address)
            self._transport.abort()
            return
        self._identities = (Identity("ip", self.host),)
        self._server.connections.add(self)
        self._timer = self._server.clock.call_later(_HANDSHAKE_TIMEOUT_S, self.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the session, which goes on until its timeout."""
        self._server.connections.discard(self)
        self._waiting.clear()
        self._stop_timer()
        if self.session is not None:
            self.session.detach(self)
        self._transport = None

    def pause_writing(self) -> None:
        """Stop reading requests while the client does not read the answers."""
        self._is_paused = True
        self._read_if_possible()

    def resume_writing(self) -> None:
        """Go on with the requests."""
        self._is_paused = False
        self._read_if_possible()
        asyncio.get_running_loop().call_soon(self._advance)

    def data_received(self, data: bytes) -> None:
        """Take all whole frames."""
        self._buffer += data
        self._advance()

    def changed(self, changes: Sequence[NodeChange]) -> None:
        """Send the events of these changes to the client."""
        for change in changes:
            for event in self.watches.events(change):
                self._notify(event)

    def close(self) -> None:
        """Close the connection after what was sent, or after a timeout if the client does not read it. Idempotent."""
        self._waiting.clear()
        self._buffer.clear()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._stop_timer()
            self._timer = self._server.clock.call_later(_CLOSE_TIMEOUT_S, self.abort)

    def abort(self) -> None:
        """Close the connection at once; what was not sent is lost."""
        self._waiting.clear()
        self._buffer.clear()
        if self._transport is not None:
            self._transport.abort()

    def _take_frames(self) -> bool:
        """Take whole frames until too many requests wait. Return whether there was one."""
        before = self.received
        try:
            while not (self._is_paused or self._is_crowded) and (frame := self._next_frame()) is not None:
                self.received += 1
                if self.session is None:
                    self._open(JuteReader(frame))
                else:
                    self._take_request(frame)
        except JuteError as error:
            logger.warning("%s: the connection is closed: %s", self.address, error)
            self.close()
        return self.received > before

    def _next_frame(self) -> bytes | None:
        if self._transport is None or self._transport.is_closing() or len(self._buffer) < 4:
            return None
        length = int.from_bytes(self._buffer[:4], "big", signed=True)
        limit = MAX_REQUEST_BYTES
        if self.session is None:
            if answer := self._server.command(bytes(self._buffer[:4])):
                self._transport.write(answer)
                self.close()
                return None
            limit = _MAX_CONNECT_BYTES
        if not 0 <= length <= limit:
            raise JuteError(f"a frame of {length} bytes, at most {limit} are allowed")
        if len(self._buffer) < 4 + length:
            return None
        frame = bytes(self._buffer[4 : 4 + length])
        del self._buffer[: 4 + length]
        return frame

    def _open(self, reader: JuteReader) -> None:
        """Read a ConnectRequest: open a session, or go on with one."""
        _version, seen_zxid, timeout_ms, session_id = reader.int32(), reader.int64(), reader.int32(), reader.int64()
        password = reader.buffer() or b""
        knows_read_only = not reader.is_at_end
        self._stop_timer()
        if seen_zxid > self._store.tree.zxid:
            logger.warning("%s: refused: the client has seen a later state (zxid 0x%x)", self.address, seen_zxid)
            self.close()
            return
        try:
            session = self._server.session_for(session_id, password, timeout_ms, self.host)
        except RegistryError as error:
            logger.warning("%s: no session: %s", self.address, error)
            self.close()
            return
        if session is None:
            self._send(_connect_response(0, 0, bytes(16), knows_read_only))
            self.close()
            return
        self.session = session
        session.attach(self)
        if session.opened is None or session.opened.done():
            self._send(_connect_response(session.timeout_ms, session.id, session.password, knows_read_only))
        else:
            self._writes.append(_Opening(knows_read_only, session.opened))
            session.opened.add_done_callback(self._advance)

    def _take_request(self, frame: bytes) -> None:
        assert self.session is not None
        self.session.heard()
        reader = JuteReader(frame)
        xid, opcode = reader.int32(), reader.int32()
        if opcode == OpCode.AUTH:
            self._waiting.append(self._authenticate(xid, reader))
        elif opcode == OpCode.CLOSE_SESSION:
            self._waiting.append(_Request(xid, None, is_last=True))
        else:
            self._waiting.append(_Request(xid, _parsed(opcode, reader)))
        self._waiting[-1].size = len(frame)
        self._waiting_bytes += len(frame)
        if self.outstanding > _MAX_WAITING or self._waiting_bytes > _MAX_WAITING_BYTES:
            self._is_crowded = True

    def _authenticate(self, xid: int, reader: JuteReader) -> _Request:
        """Add an identity to the session's. Of the schemes of ZooKeeper, clients can use digest."""
        _type, scheme, secret = reader.int32(), reader.string(), reader.buffer() or b""
        if scheme == "ip":  # as in ZooKeeper, it adds nothing
            return _Request(xid, ErrorCode.OK)
        name, colon, _password = secret.partition(b":")
        user = name.decode(errors="replace")
        is_possible = colon and len(secret) <= _MAX_SECRET_BYTES and not _CONTROL_CHARACTER.search(user)
        if scheme != "digest" or not is_possible:
            logger.warning("%s: an auth packet of the scheme %.100r is refused", self.address, scheme)
            return _Request(xid, ErrorCode.AUTH_FAILED, is_last=True)
        # SHA-1 is the format of ZooKeeper's ACLs.
        digest = base64.b64encode(hashlib.sha1(secret, usedforsecurity=False).digest()).decode()
        identity = Identity("digest", f"{user}:{digest}")
        if identity not in self._identities:
            if len(self._identities) >= _MAX_IDENTITIES:
                logger.warning("%s: an auth packet is refused: at most %d identities", self.address, _MAX_IDENTITIES)
                return _Request(xid, ErrorCode.AUTH_FAILED, is_last=True)
            self._identities = (*self._identities, identity)
        return _Request(xid, ErrorCode.OK)

    def _advance(self, _: object = None) -> None:
        """Answer what can be answered, in order, and give the store the writes whose turn it is."""
        while self._writes and self._writes[0].future is not None and self._writes[0].future.done():
            self._answer_write(self._writes.popleft())
        if not self._is_turn_planned:
            self._take_turn()

    def _take_turn(self) -> None:
        self._is_turn_planned = False
        left = self._run_waiting(_MAX_READS_IN_A_TURN)
        while left and self._take_frames():
            left = self._run_waiting(left)
        if not left:
            self._is_turn_planned = True
            asyncio.get_running_loop().call_soon(self._take_turn)
        self._read_if_possible()

    def _run_waiting(self, most: int) -> int:
        """Answer at most so many reads. Return how many more could be answered."""
        while self._waiting and not self._is_paused and most:
            request = self._waiting[0]
            if isinstance(request.todo, Write) or request.todo is None:
                self._waiting.popleft()
                self._give_to_store(request)
            elif self._writes:
                break  # a read sees the writes before it
            else:
                self._waiting.popleft()
                self._answer_read(request)
                most -= 1
        if self.outstanding <= _MAX_WAITING // 2 and self._waiting_bytes <= _MAX_WAITING_BYTES // 2:
            self._is_crowded = False
        return most

    def _give_to_store(self, request: _Request) -> None:
        assert self.session is not None
        if isinstance(request.todo, Write):
            caller, run = Caller(self.session.id, self._identities), request.todo.run
            request.future = self._store.write(self.session.id, lambda draft: run(draft, caller))
        else:
            request.future = self.session.end(asked_by=self)
        self._writes.append(request)
        request.future.add_done_callback(self._advance)

    def _answer_opening(self, request: _Opening) -> None:
        assert request.future is not None
        assert self.session is not None
        session = self.session
        error = None if request.future.cancelled() else request.future.exception()
        if error is None:
            self._send(_connect_response(session.timeout_ms, session.id, session.password, request.knows_read_only))
            return
        logger.warning("%s: no session: %s", self.address, error)
        session.drop()
        self.close()

    def _answer_write(self, request: _Request) -> None:
        assert request.future is not None
        if isinstance(request, _Opening):
            self._answer_opening(request)
            return
        if request.future.cancelled():
            self.close()
            return
        error = request.future.exception()
        if error is None:
            self._answer(request, ErrorCode.OK, request.future.result() or b"")
        elif isinstance(error, RegistryError):
            self._answer(request, code_of(error))
        else:
            raise error

    def _answer_read(self, request: _Request) -> None:
        if isinstance(request.todo, ErrorCode):
            self._answer(request, request.todo)
            return
        assert isinstance(request.todo, Read)
        assert self.session is not None
        view = View(self._store.tree, Caller(self.session.id, self._identities), self.watches, self._notify)
        try:
            body = request.todo.run(view)
        except RegistryError as error:
            self._answer(request, code_of(error))
        except RefusedError as error:
            self._answer(request, error.code)
        else:
            self._answer(request, ErrorCode.OK, body)

    def _answer(self, request: _Request, code: ErrorCode, body: bytes = b"") -> None:
        self._waiting_bytes -= request.size
        self._send(jute.int32(request.xid) + jute.int64(self._store.tree.zxid) + jute.int32(code) + body)
        if request.is_last:
            self.close()

    def _notify(self, event: Event) -> None:
        kind, path = event
        header = jute.int32(_WATCH_EVENT_XID) + jute.int64(-1) + jute.int32(ErrorCode.OK)
        if self._transport is not None and self._transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            logger.warning("%s: the connection is closed: the client does not read its events", self.address)
            self.abort()
            return
        self._send(header + jute.int32(kind) + jute.int32(_SYNC_CONNECTED) + jute.string(path))

    def _send(self, frame: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self.sent += 1
            self._transport.write(jute.int32(len(frame)) + frame)

    def _read_if_possible(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        is_read = not (self._is_paused or self._is_crowded or self._is_turn_planned)
        if is_read and not self._is_read:
            self._transport.resume_reading()
        elif self._is_read and not is_read:
            self._transport.pause_reading()
        self._is_read = is_read

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _parsed(opcode: int, reader: JuteReader) -> Read | Write | ErrorCode:
    if opcode == OpCode.PING:
        return ErrorCode.OK
    try:
        return parse(opcode, reader)
    except RefusedError as error:
        return error.code
    except RegistryError as error:
        return code_of(error)
    except JuteError as error:
        logger.warning("a request with the code %d cannot be read: %s", opcode, error)
        return ErrorCode.MARSHALLING_ERROR


def _connect_response(timeout_ms: int, session_id: int, password: bytes, with_read_only: bool) -> bytes:
    fields = jute.int32(0) + jute.int32(timeout_ms) + jute.int64(session_id) + jute.buffer(password)
    return fields + (jute.boolean(False) if with_read_only else b"")
