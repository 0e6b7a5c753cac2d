"""Threads for the steps of SASL exchanges that read files: those of GSSAPI.

They are not the threads of the event loop's executor, which read and write logs: clients that are not authenticated
must not slow these down.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from security.sasl.server import SaslServer

_THREADS = 2


class StepThreads:
    """The threads of one broker; they begin with the first step."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def step(self, exchange: SaslServer, message: bytes) -> asyncio.Future[bytes | None]:
        """Let an exchange take a message of the client in one of the threads."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(_THREADS, "sasl")
        return asyncio.get_running_loop().run_in_executor(self._executor, exchange.step, message)

    async def run(self) -> None:
        """Keep the threads until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            if self._executor is not None:
                self._executor.shutdown(cancel_futures=True)
