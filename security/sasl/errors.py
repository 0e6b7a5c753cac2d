"""Errors of SASL mechanisms. No message contains a password, a key, a proof or a token."""

from __future__ import annotations


class SaslError(Exception):
    """A SASL exchange cannot be continued. The peer is not authenticated."""


class SaslMessageError(SaslError):
    """A message breaks the format of its mechanism."""
