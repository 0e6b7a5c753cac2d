"""The wait before a retry: exponential, with jitter (KIP-580)."""

import random as random_module

JITTER = 0.2


class Backoff:
    """Delays of `initial_ms`, doubling up to `max_ms`, each 20% more or less, so that not all clients retry at once.

    `random` is injected so that a run can be repeated from its seed.
    """

    __slots__ = ("_initial_ms", "_max_ms", "_random")

    def __init__(self, initial_ms: float, max_ms: float, random: random_module.Random | None = None) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max(initial_ms, max_ms)
        self._random = random if random is not None else random_module.Random()

    def delay_s(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt`, counted from 0."""
        delay_ms = min(self._initial_ms * 2.0 ** min(attempt, 62), self._max_ms)
        return delay_ms * self._random.uniform(1 - JITTER, 1 + JITTER) / 1000
