"""How many requests the console answers at the same time: in total, and for each client address.

A request counts until its handler returns, so a live stream counts for as long as it is open. Requests for health are
not counted: the console must answer them while it refuses others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MAX_REQUESTS: Final = 256
MAX_REQUESTS_OF_ADDRESS: Final = 64
"""A browser has at most 6 connections to the console. All users behind one proxy have one address."""
RETRY_AFTER_S: Final = 1
"""When a client may try again that has been refused."""


class TooManyRequestsError(Exception):
    """A request is one too many. `of_address`: for its client, not for the console."""

    def __init__(self, *, of_address: bool) -> None:
        super().__init__()
        self.of_address = of_address


class RequestLimits:
    """Counts the requests that are being answered."""

    def __init__(self, max_requests: int = MAX_REQUESTS, max_of_address: int = MAX_REQUESTS_OF_ADDRESS) -> None:
        self._max_requests = max_requests
        self._max_of_address = max_of_address
        self._by_address: Counter[str] = Counter()

    @contextmanager
    def counted(self, host: str) -> Iterator[None]:
        """Count a request of a client address. Raises TooManyRequestsError."""
        counts = self._by_address
        if counts[host] >= self._max_of_address:
            raise TooManyRequestsError(of_address=True)
        if counts.total() >= self._max_requests:
            raise TooManyRequestsError(of_address=False)
        counts[host] += 1
        try:
            yield
        finally:
            counts[host] -= 1
            if not counts[host]:
                del counts[host]
