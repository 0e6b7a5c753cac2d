"""The server's side of a SASL mechanism: one object an exchange, bytes in, bytes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple, TypeAlias

from security.principal import USER, Principal

OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Authenticated(NamedTuple):
    """What a client has proved. expires_ms: when its token ends, since 1970; None if no token was used."""

    principal: Principal
    expires_ms: int | None = None
    is_token: bool = False
    """Whether the client has logged in with a delegation token: it may not manage tokens."""

    @classmethod
    def user(cls, name: str) -> Authenticated:
        """Return the result of a login without a token."""
        return cls(Principal(USER, name))


class SaslServer(ABC):
    """One exchange."""

    reads_files: ClassVar[bool] = False
    """Whether `step` reads or writes files, so that it must not run in the thread of an event loop."""

    def takes_time(self, message: bytes) -> bool:
        """Return whether `step` with this message must not run in the thread of an event loop."""
        return self.reads_files

    authenticated: Authenticated | None = None
    """What the client has proved, from the end of the exchange on."""

    @abstractmethod
    def step(self, message: bytes) -> bytes | None:
        """Take a message of the client, return the server's. None: nothing follows, not even an empty message.

        Raises AuthenticationFailedError, whose text the client may see; another SaslError if the client gets no
        answer.
        """


NewSaslServer: TypeAlias = Callable[[], SaslServer]
"""Starts an exchange of one mechanism."""
