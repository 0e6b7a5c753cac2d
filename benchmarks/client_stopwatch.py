"""What a measured Python client shares with the others: when its time begins and ends, and its event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from benchmarks.load import announce, finished

Figures = dict[str, float]


class Stopwatch:
    """Says that the load is ready, and measures from then on: wall clock, and CPU time of all threads."""

    def __init__(self) -> None:
        announce("ready")
        self._cpu_s = time.process_time()
        self._began = time.monotonic()

    def stop(self, records: int) -> Figures:
        cpu_s = time.process_time() - self._cpu_s
        return {"seconds": finished(self._began), "client_cpu_s": cpu_s, "records": records}


def run(main: Coroutine[Any, Any, Figures]) -> Figures:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
