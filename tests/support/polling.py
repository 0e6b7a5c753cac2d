"""Waiting for what other processes do, in tests without an event loop."""

import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 60.0

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, timeout_s: float = DEADLINE_S) -> T:
    """Ask until the answer is a true one, and give it. Fails with `what` when it is not in time."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {timeout_s:g} s: {what}"
        time.sleep(0.01)
    return found
