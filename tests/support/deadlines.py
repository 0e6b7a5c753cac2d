"""The one deadline of all waits in tests. It scales with the machine.

A wait ends when its condition holds, so a long deadline costs nothing unless the test fails. A test that waits for
something takes `DEADLINE_S`, or a multiple of it where the wait contains many steps; no test has a number of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

_VARIABLE = "PACE_OF_TESTS"
"""Not OTTLA_…: a broker would take it for a setting that it does not know, and warn."""
_REFERENCE_S = 0.15
"""How long `_sample` takes on an idle machine with two cores of 2026."""
_SLOWEST = 10.0


def _sample() -> float:
    """Seconds to start three processes at the same time and wait for their end."""
    began = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-c", "import asyncio, json, ssl"]) for _ in range(3)]
    for process in running:
        process.wait()
    return time.monotonic() - began


def _measured_pace() -> float:
    """How many times slower this machine is than the reference: the best of three samples, at least 1."""
    known = os.environ.get(_VARIABLE)
    if known is None:
        known = f"{min(max(min(_sample() for _ in range(3)) / _REFERENCE_S, 1.0), _SLOWEST):.2f}"
        os.environ[_VARIABLE] = known  # the workers of pytest-xdist, and the processes of tests, take it from here
    return float(known)


PACE = _measured_pace()
DEADLINE_S = round(60 * PACE)
DEADLINE_MS = 1000 * DEADLINE_S
TEST_TIMEOUT_S = 5 * DEADLINE_S
"""When pytest-timeout ends a test that has no mark of its own."""
