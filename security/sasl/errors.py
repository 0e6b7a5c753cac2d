"""Errors of SASL mechanisms. No message contains a password, a key, a proof or a token."""

from __future__ import annotations


class SaslError(Exception):
    """A SASL exchange cannot be continued. The peer is not authenticated."""


class SaslMessageError(SaslError):
    """A message breaks the format of its mechanism."""


class AuthenticationFailedError(SaslError):
    """The peer has failed to prove a user. The text is for the peer: it does not tell whether the user exists."""

    def __init__(self, shown: str, reason: str | None = None) -> None:
        """shown: the text for the peer. reason: for the log, if it says more."""
        super().__init__(shown)
        self.reason = shown if reason is None else reason


def invalid_credentials(mechanism: str, reason: str) -> AuthenticationFailedError:
    """Return the error that Kafka sends if it tells nothing but the mechanism."""
    shown = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    return AuthenticationFailedError(shown, reason)
