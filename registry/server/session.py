"""The sessions of clients in other processes.

A session outlives its connection: a client that returns with the session's id and password goes on with it. It ends
when its client closes it, or says nothing for the session's timeout. It outlives the process, too, if the store has a
file: after a restart its timeout begins again.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from registry.embedded.tree import KeptSession
from registry.errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from registry.embedded.store import EmbeddedStore
    from registry.embedded.tree import NodeChange

logger = logging.getLogger(__name__)

PASSWORD_BYTES = 16
_STALL_S = 1.0
"""If a timer is later than this, the process did not run meanwhile, and could not hear its clients."""


class Timer(Protocol):
    """A call that is planned."""

    def cancel(self) -> None:
        """Do not call."""


class Clock(Protocol):
    """The part of an event loop that sessions use; tests have their own."""

    def time(self) -> float:
        """Return seconds since some moment."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call the function in `delay` seconds."""


class SessionConnection(Protocol):
    """The connection of a session, as its session sees it."""

    def changed(self, changes: Sequence[NodeChange]) -> None:
        """Send the events of these changes."""

    def close(self) -> None:
        """Close the connection after what was sent."""

    def abort(self) -> None:
        """Close the connection at once."""


class ServerSession:
    """One session, from its first connection to its end."""

    def __init__(
        self,
        store: EmbeddedStore,
        kept: KeptSession,
        host: str,
        on_end: Callable[[ServerSession], None],
        clock: Clock,
        *,
        session_id: int = 0,
    ) -> None:
        """Open a session in the store, or go on with the session `session_id` of the previous process.

        host: of the client that opens it. Raises the store's error if it has failed.
        """
        self.host = host
        self.timeout_ms = kept.timeout_ms
        self.password = kept.password
        self.opened: asyncio.Future[None] | None = None
        """Done when the session is durable; None for one of the previous process."""
        self.connection: SessionConnection | None = None
        self.is_ending = False
        """The end is under way: no connection can go on with the session."""
        self._ended_by: SessionConnection | None = None  # it is closed after its answer
        self._store = store
        self._on_end = on_end
        self._clock = clock
        self._heard_at = clock.time()
        if session_id:
            self.id = session_id
            store.adopt_session(session_id, self)
        else:
            self.id, self.opened = store.open_kept_session(self, kept)
        self._plan(self.timeout_ms / 1000)

    @staticmethod
    def with_password(timeout_ms: int) -> KeptSession:
        """Return what a new session of a client needs."""
        return KeptSession(timeout_ms, secrets.token_bytes(PASSWORD_BYTES))

    def attach(self, connection: SessionConnection) -> None:
        """Go on with another connection; the one before is closed."""
        previous, self.connection = self.connection, connection
        if previous is not None:
            previous.close()
        self.heard()

    def detach(self, connection: SessionConnection) -> None:
        """Go on without a connection, unless there is another one already."""
        if self.connection is connection:
            self.connection = None

    def has_password(self, password: bytes) -> bool:
        """Whether this is the session's password."""
        return hmac.compare_digest(self.password, password)

    def heard(self) -> None:
        """Note a sign of life of the client."""
        self._heard_at = self._clock.time()

    def end(self, asked_by: SessionConnection | None = None) -> asyncio.Future[None]:
        """End the session; its ephemeral nodes are deleted. asked_by: closes itself after the answer."""
        self.is_ending = True
        self._ended_by = asked_by
        self._timer.cancel()
        return self._store.end_session(self.id)

    def drop(self) -> None:
        """End the session without waiting for it."""
        self.end().add_done_callback(retrieve)

    def changed(self, changes: Sequence[NodeChange]) -> None:
        """Tell the connection what has changed. Called by the store."""
        if self.connection is not None:
            self.connection.changed(changes)

    def session_ended(self) -> None:
        """Forget the session. Called by the store."""
        self._timer.cancel()
        self._on_end(self)
        if self.connection is not None and self.connection is not self._ended_by:
            self.connection.abort()  # a client that does not read would keep it open

    def _plan(self, delay_s: float) -> None:
        self._due_at = self._clock.time() + delay_s
        self._timer = self._clock.call_later(delay_s, self._look)

    def _look(self) -> None:
        """End the session if nothing was received for the timeout, in which a stall of this process does not count.

        Otherwise check again when the timeout could expire.
        """
        now = self._clock.time()
        if now - self._due_at > _STALL_S:
            self._heard_at += now - self._due_at + _STALL_S  # what has arrived meanwhile is read first
        left_s = self._heard_at + self.timeout_ms / 1000 - now
        if left_s > 0:
            self._plan(left_s)
            return
        logger.info("session 0x%x expires: nothing was heard for %d ms", self.id, self.timeout_ms)
        self.drop()


def retrieve(ended: asyncio.Future[None]) -> None:
    """Retrieve the error of a write whose answer is not needed: the session has ended, or the store is closed."""
    with suppress(RegistryError, asyncio.CancelledError):
        ended.result()
