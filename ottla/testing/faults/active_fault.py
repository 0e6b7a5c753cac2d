"""A fault that is in effect: what is left of it, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields
from typing import Any

from ottla.testing.faults.counter import Counter, LocalCounter
from ottla.testing.faults.description import LIMITS, Description, Fault

Heal = Callable[[], Awaitable[None]]
"""Ends the effect of a fault. It is called once."""


def count_of(description: Description) -> int | None:
    """Return how often a fault may take effect; None: no limit."""
    count: int | None = getattr(description, "count", None)
    return count


class ActiveFault:
    """One fault, from the moment when it takes effect. All methods must be called in the event loop of the brokers."""

    def __init__(
        self,
        fault_id: int,
        verb: str,
        description: Description,
        now_s: Callable[[], float],
        counter: Counter | None = None,
    ) -> None:
        """counter: of its uses; without one, they are counted in this process alone."""
        self.id = fault_id
        self.verb = verb
        self.description = description
        self.counter = counter or LocalCounter(count_of(description))
        """How often the fault has taken effect, and still may."""
        self.did: Mapping[str, Any] = {}
        """What the verb has done at once, as JSON."""
        self.is_lasting = False
        """Whether it stays in effect until it is healed."""
        self.on_over: Callable[[], None] = lambda: None
        """Called once, when the count is used up and the last use has ended."""
        self._now_s = now_s
        for_s = description.for_s if isinstance(description, Fault) else None
        self._ends_s = None if for_s is None else now_s() + for_s
        self._healed = asyncio.Event()
        self._waiting = 0  # uses that have not ended

    def take(self, *, waits: bool = False) -> bool:
        """Return whether the fault takes effect now, and count it if so. waits: `wait` will be called for this use."""
        if self._healed.is_set() or not self.counter.take():
            return False
        if waits:
            self.begin_use()
        self.check_over()
        return True

    def begin_use(self) -> None:
        """Keep the fault in effect until `end_use`, also when its count is used up."""
        self._waiting += 1

    async def wait(self, delay_s: float) -> None:
        """Wait for `delay_s`, or until the fault is healed. The fault stays in effect while one of its uses waits."""
        try:
            async with asyncio.timeout(delay_s):
                await self._healed.wait()
        except TimeoutError:
            pass
        finally:
            self.end_use()

    def end_use(self) -> None:
        """End a use that was taken with `waits`, or begun by `begin_use`."""
        self._waiting -= 1
        self.check_over()

    @property
    def is_waiting(self) -> bool:
        """Whether one of its uses has not ended."""
        return self._waiting > 0

    @property
    def is_used_up(self) -> bool:
        """Whether it has taken effect as often as it may, and no use waits."""
        return self.counter.left == 0 and not self._waiting

    def check_over(self) -> None:
        """Call `on_over` if the fault is used up."""
        if self.is_used_up:
            self.on_over()

    def end(self) -> None:
        """End the waits of its uses; the fault takes effect no more."""
        self._healed.set()

    @property
    def is_healed(self) -> bool:
        """Whether `end` was called."""
        return self._healed.is_set()

    def as_json(self) -> dict[str, Any]:
        """Return the fault for a list: id, verb, options that differ from their defaults, what is left of it."""
        options = {
            field.name: getattr(self.description, field.name)
            for field in sorted(fields(self.description), key=lambda one: one.name in LIMITS)
            if getattr(self.description, field.name) != field.default
        }
        left_s = None if self._ends_s is None else round(max(self._ends_s - self._now_s(), 0.0), 3)
        return {
            "id": self.id,
            "verb": self.verb,
            "options": options,
            "uses": self.counter.uses,
            "left": self.counter.left,
            "left_s": left_s,
            "did": dict(self.did),
            "is_lasting": self.is_lasting,
        }
