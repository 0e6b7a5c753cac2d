"""URLs of settings: their rules, and which of them an error may show."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from security.secret import HIDDEN


def broken_rule(url: str, *beginnings: str) -> str | None:
    """Return the rule that a URL breaks; None if it is valid. beginnings: allowed ones, `https://` or `file:`.

    A user and a password are refused: a URL is shown in logs and by DescribeConfigs.
    """
    parts = _parts(url)
    if parts is None:
        return "is not a URL"
    if "@" in parts.netloc:
        return "must not contain a user or a password"
    if not url.lower().startswith(beginnings):
        return f"must begin with {' or '.join(beginnings)}"
    if not url.isprintable() or " " in url:
        return "must not contain spaces or characters that cannot be printed"
    if parts.scheme != "file" and not parts.hostname:
        return "must contain a host"
    return None


def shown(url: str) -> str:
    """Return the URL, or `[hidden]` if it may contain a password."""
    return HIDDEN if "@" in url or _parts(url) is None else url


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError, too
    except ValueError:
        return None
    return parts
