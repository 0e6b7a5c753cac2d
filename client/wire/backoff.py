"""The delays before retries: exponential, with jitter (KIP-580). `Backoff` computes them, `Retries` counts failures."""

import asyncio
import logging
import random as random_module

RETRY_BACKOFF_MS = 100
RETRY_BACKOFF_MAX_MS = 1_000
"""The defaults of `retry.backoff.ms` and `retry.backoff.max.ms`. Brokers use them, too, where Kafka has no setting."""

JITTER = 0.2


class Backoff:
    """Delays of `initial_ms`, doubling up to `max_ms`, each 20% more or less, so that not all clients retry at once.

    `random` is injected so that a run can be repeated from its seed.
    """

    __slots__ = ("_initial_ms", "_max_ms", "_random")

    def __init__(
        self,
        initial_ms: float = RETRY_BACKOFF_MS,
        max_ms: float = RETRY_BACKOFF_MAX_MS,
        random: random_module.Random | None = None,
    ) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max(initial_ms, max_ms)
        self._random = random if random is not None else random_module.Random()

    def delay_s(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt`, counted from 0."""
        delay_ms = min(self._initial_ms * 2.0 ** min(attempt, 62), self._max_ms)
        return delay_ms * self._random.uniform(1 - JITTER, 1 + JITTER) / 1000


class Retries:
    """The retries of one operation. `failures`: how often it has failed since its last success."""

    __slots__ = ("_backoff", "failures")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.failures = 0

    def next_delay_s(self) -> float:
        """Count a failure, and return the seconds to wait before the next attempt."""
        delay_s = self._backoff.delay_s(self.failures)
        self.failures += 1
        return delay_s

    async def wait(self) -> None:
        """Count a failure, and wait before the next attempt."""
        await asyncio.sleep(self.next_delay_s())

    def succeeded(self) -> None:
        """Start again with the shortest delay."""
        self.failures = 0

    def log_level(self, first: int) -> int:
        """Return the level for the message about a failure that is not counted yet: `first`, and DEBUG for repeats."""
        return logging.DEBUG if self.failures else first
