"""The number of repetitions of a counted test (fuzzing, kills, seeds): few in `make test`, all in `make test-full`."""

import os
from collections.abc import Callable
from typing import Any

import pytest

FULL = os.environ.get("OTTLA_FULL") == "1"


def count(reduced: int, full: int) -> int:
    """The number of repetitions for this run: `full` when OTTLA_FULL=1 is set, else `reduced`."""
    return full if FULL else reduced


def full_only(test: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a test that is too slow for `make test` even with few repetitions: it runs only in `make test-full`."""
    return pytest.mark.counted(pytest.mark.skipif(not FULL, reason="runs in make test-full")(test))
