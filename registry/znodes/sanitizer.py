"""Encoding of the names of users, clients and principals as path elements.

Kafka percent-encodes them like a Java URL encoder, with %20 for the space and %2A for the asterisk, so that
every name is a valid path element and metric name.
"""

from __future__ import annotations

from urllib.parse import quote, unquote_plus


def sanitize(name: str) -> str:
    """Encode a name: all characters except letters, digits, dot, hyphen and underscore become %XX of their UTF-8."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(text: str) -> str:
    """Decode the result of `sanitize`; a plus sign is decoded as a space, as in Java's URL decoder."""
    return unquote_plus(text)
