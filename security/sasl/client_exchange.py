"""The client's side of one login, for every SASL mechanism: messages in, messages out, no sockets."""

from __future__ import annotations

from typing import Protocol

from security.sasl.errors import SaslError


class ClientExchange(Protocol):
    """One login. Call `first`, then `answer` with each message of the server until it returns None."""

    @property
    def is_last(self) -> bool:
        """Whether the message that was returned last has no answer if messages are bare (SaslHandshake v0)."""
        ...

    def first(self) -> bytes:
        """Return the first message of the client."""
        ...

    def answer(self, message: bytes) -> bytes | None:
        """Return the answer to the server's message; None if the server has accepted the login.

        Raises SaslError if the server breaks the rules of the mechanism, or has not proved that it knows the user.
        """
        ...


class LoginRefusedError(SaslError):
    """The server refuses the login; the message has the server's reason."""
