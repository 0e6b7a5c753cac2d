"""Whether a consumer of librdkafka still works: its main thread tells statistics every second, whatever brokers do.

A consumer of librdkafka 2.16 hangs for ever if a broker leaves the metadata before it has told the consumer where an
epoch ended: two threads wait for each other's lock (its issue 5476). It was seen once in some 1,200 stops, each counted
once for each consumer. Nothing can be asked of such a consumer, not even to close. A test that stops brokers gives it
up and opens another one.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer

from support.deadlines import DEADLINE_S

BEAT_MS = 1000
STOPPED_S = DEADLINE_S / 4


class Pulse:
    """Of one consumer, which is polled all the time: librdkafka tells its statistics to who polls."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._last_s = now_s()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the consumer."""
        return {"statistics.interval.ms": BEAT_MS, "stats_cb": self._beat}

    @property
    def has_stopped(self) -> bool:
        """Whether the main thread has told nothing for so long that it hangs."""
        return self._now_s() - self._last_s > STOPPED_S

    def _beat(self, _: str) -> None:
        self._last_s = self._now_s()


def give_up(consumer: Consumer) -> None:
    """Never free a consumer that hangs: to free it is to wait for its threads."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(consumer))
