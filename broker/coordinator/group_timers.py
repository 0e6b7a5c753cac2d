"""The timers of the members of a group, of either type."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

TimerKey: TypeAlias = tuple[str, str]
"""The kind and the member id ("" for a timer of the group)."""
TimerChanges: TypeAlias = Mapping[TimerKey, int | None]
"""The delay in ms of each timer to set or to restart; None to cancel the timer."""
CallLater: TypeAlias = Callable[[int, Callable[[], None]], TimerHandle]
"""Takes a delay in ms and a callback."""


def change_timers(
    timers: dict[TimerKey, TimerHandle],
    changes: TimerChanges,
    call_later: CallLater,
    expired: Callable[[TimerKey], None],
) -> None:
    """Set, restart and cancel timers. A timer that expires calls `expired`, which has to remove it from `timers`."""
    for key, delay_ms in changes.items():
        timer = timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if delay_ms is not None:
            timers[key] = call_later(delay_ms, partial(expired, key))
