"""A server of the embedded registry: brokers in other processes, kazoo, zkCli.sh and Kafka connect to it.

It is one node, for development and tests: a failure of its process or disk stops everything that depends on it, where
an ensemble of three ZooKeepers goes on. Sessions survive a restart if the store was opened with `keep_sessions`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from registry.errors import RegistryError
from registry.server.commands import answer_of
from registry.server.connection import ServerConnection
from registry.server.session import ServerSession, retrieve

if TYPE_CHECKING:
    import socket

    from registry.embedded.store import EmbeddedStore
    from registry.server.session import Clock, Timer

logger = logging.getLogger(__name__)

MIN_SESSION_TIMEOUT_MS = 500  # both as in `ottla zookeeper`
MAX_SESSION_TIMEOUT_MS = 120_000
ENDED_NODES_INTERVAL_MS = 60_000  # ZooKeeper's znode.container.checkIntervalMs
_MAX_CONNECTIONS = 4_000
_MAX_CONNECTIONS_OF_AN_ADDRESS = 200
_MAX_LEFT_SESSIONS = 10_000  # without a connection
_MAX_LEFT_SESSIONS_OF_AN_ADDRESS = 1_000
_UNKNOWN_HOST = "?"  # of the sessions of the previous process


class RegistryServer:
    """The listening socket, the connections and the sessions."""

    def __init__(
        self,
        store: EmbeddedStore,
        *,
        min_session_timeout_ms: int = MIN_SESSION_TIMEOUT_MS,
        max_session_timeout_ms: int = MAX_SESSION_TIMEOUT_MS,
        ended_nodes_interval_ms: int = ENDED_NODES_INTERVAL_MS,
        clock: Clock | None = None,
    ) -> None:
        """Go on with the sessions of the store's previous process.

        The timeout that a client wants is raised or lowered to these limits. ended_nodes_interval_ms: how often the
        server deletes containers and nodes with a time to live that have ended. clock: by default the event loop.
        """
        self.store = store
        self.connections: set[ServerConnection] = set()
        self.sessions: dict[int, ServerSession] = {}
        self.clock = clock or asyncio.get_running_loop()
        self._timeouts = (min_session_timeout_ms, max_session_timeout_ms)
        self._ended_nodes_interval_s = ended_nodes_interval_ms / 1000
        self._timer: Timer | None = None
        self._server: asyncio.Server | None = None
        self.is_closing = False
        for session_id, kept in store.kept_sessions.items():
            session = ServerSession(store, kept, _UNKNOWN_HOST, self._forget, self.clock, session_id=session_id)
            self.sessions[session_id] = session

    async def start(self, host: str = "127.0.0.1", port: int = 0, *, listener: socket.socket | None = None) -> None:
        """Listen. With port 0, the system chooses one. listener: a socket that listens already, instead of an address.

        Raises OSError if the address or the socket cannot be used.
        """
        loop = asyncio.get_running_loop()
        if listener is not None:
            self._server = await loop.create_server(lambda: ServerConnection(self), sock=listener)
        else:
            self._server = await loop.create_server(lambda: ServerConnection(self), host, port)
        self._timer = self.clock.call_later(self._ended_nodes_interval_s, self._delete_ended_nodes)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening, close all connections. The store and its sessions stay open."""
        if self._server is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.is_closing = True
        loop = asyncio.get_running_loop()
        for listening in self._server.sockets:
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)  # asyncio loses a connection that it has accepted if the server is closed in this turn
        self._server.close()
        for connection in list(self.connections):
            connection.abort()
        await self._server.wait_closed()

    def session_for(self, session_id: int, password: bytes, timeout_ms: int, host: str) -> ServerSession | None:
        """Return a new session (id 0) or the one with this id; None if it ends, or the password is another.

        host: the address of the client. Raises RegistryError if the store has failed, or if clients have left too many
        sessions without a connection.
        """
        if session_id:
            session = self.sessions.get(session_id)
            if session is None or session.is_ending or not session.has_password(password):
                return None
            return session
        lowest, highest = self._timeouts
        self._require_room_for_session(host)
        kept = ServerSession.with_password(min(max(timeout_ms, lowest), highest))
        session = ServerSession(self.store, kept, host, self._forget, self.clock)
        self.sessions[session.id] = session
        return session

    def has_room_for(self, host: str) -> bool:
        """Whether another connection from this address is allowed."""
        if len(self.connections) >= _MAX_CONNECTIONS:
            return False
        return sum(one.host == host for one in self.connections) < _MAX_CONNECTIONS_OF_AN_ADDRESS

    def _require_room_for_session(self, host: str) -> None:
        left = [one.host for one in self.sessions.values() if one.connection is None]
        if len(left) >= _MAX_LEFT_SESSIONS or left.count(host) >= _MAX_LEFT_SESSIONS_OF_AN_ADDRESS:
            raise RegistryError("too many sessions have no connection; they end after their timeouts")

    def command(self, word: bytes) -> bytes | None:
        """Return the answer to a command of four letters; None if it is none."""
        return answer_of(word, self)

    def _delete_ended_nodes(self) -> None:
        deleted = self.store.delete_ended_nodes()
        if deleted is not None:
            deleted.add_done_callback(retrieve)
        self._timer = self.clock.call_later(self._ended_nodes_interval_s, self._delete_ended_nodes)

    def _forget(self, session: ServerSession) -> None:
        self.sessions.pop(session.id, None)
