"""The rule for requests that change something: they come from the console's own pages, or from no page at all.

A browser sends the login of the console with every request to it, also with those that pages of other sites cause
(cross-site request forgery). Browsers say where a request comes from (`Origin`, `Sec-Fetch-Site`), and do not send JSON
to another site without asking it, which the console never allows. Programs send neither header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
JSON: Final = "application/json"


def is_of_this_site(headers: Mapping[str, str], host: str) -> bool:
    """Return whether a request with these headers does not come from the page of another site.

    host: the Host header. The scheme is not compared: a proxy may speak TLS for the console.
    """
    if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("Origin")
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower() and not parts.path
