"""A connection whose login has an end (KIP-368): of connections.max.reauth.ms, or of the client's token.

The connection is not closed at the end, but at the next request, unless this is a SaslHandshake: the client may
authenticate again at any time, also after the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.authentication.login import Established, Login
from broker.network.connection import CloseConnectionError, Connection, PendingAnswer
from broker.network.output import Answer
from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from broker.authentication.listener import ListenerAuthentication

_HANDSHAKE = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")


class Session:
    """The frame handler of such a connection."""

    __slots__ = ("_end_s", "_established", "_listener")

    def __init__(self, listener: ListenerAuthentication, established: Established, end_s: float) -> None:
        """end_s: on the clock of the event loop."""
        self._listener = listener
        self._established = established
        self._end_s = end_s

    def handle_frame(self, frame: memoryview, connection: Connection) -> Answer | PendingAnswer | None:
        """Pass a frame on to the dispatcher. Raises CloseConnectionError after the end."""
        if frame[:2] == _HANDSHAKE:
            login = Login(self._listener, self._established)
            self._listener.expect(login, connection)
            return login.handle_frame(frame, connection)
        if connection.acceptor.now_s() >= self._end_s:
            raise CloseConnectionError("the session of the client has ended: it must authenticate again (KIP-368)")
        return self._listener.dispatcher.handle_frame(frame, connection)
