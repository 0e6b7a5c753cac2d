"""How long it may take to connect to a broker (KIP-601): longer after each failure in a row, so that a slow network is
not given up for ever, and a broker that has disappeared is given up soon.

The time covers the connection and the TLS handshake. It is `socket.connection.setup.timeout.ms` at first, doubles with
each failure up to `socket.connection.setup.timeout.max.ms`, and is 20% more or less, as in Kafka.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Hashable
from typing import Final

from client.wire.backoff import Backoff

SETUP_TIMEOUT_MS: Final = 10_000
SETUP_TIMEOUT_MAX_MS: Final = 30_000
"""The defaults of both settings."""


class SetupTimeouts:
    """The times of all brokers that one client connects to."""

    def __init__(
        self,
        initial_ms: float = SETUP_TIMEOUT_MS,
        max_ms: float = SETUP_TIMEOUT_MAX_MS,
        random: random_module.Random | None = None,
    ) -> None:
        self._backoff = Backoff(initial_ms, max_ms, random)
        self._failures: dict[Hashable, int] = {}

    def next_s(self, address: Hashable) -> float:
        """Return the seconds that the next attempt may take."""
        return self._backoff.delay_s(self._failures.get(address, 0))

    def failed(self, address: Hashable) -> None:
        """Give the next attempt more time."""
        self._failures[address] = self._failures.get(address, 0) + 1

    def succeeded(self, address: Hashable) -> None:
        """Begin with the shortest time again."""
        self._failures.pop(address, None)
