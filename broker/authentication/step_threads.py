"""Threads for the steps of SASL exchanges that read files, those of GSSAPI, and the answers that wait for them.

They are not the threads of the event loop's executor, which read and write logs: clients that are not authenticated
must not slow these down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from broker.network.connection import CloseConnectionError, PendingAnswer
from broker.network.output import Answer
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


class SteppedAnswer:
    """The answer to a token whose step runs in another thread, because it reads files: a `PendingAnswer`."""

    def __init__(
        self,
        step: asyncio.Future[bytes | None],
        conclude: Callable[[Callable[[], bytes | None]], Answer | PendingAnswer | None],
    ) -> None:
        """conclude: makes the answer of a function that returns or raises what the step does."""
        self._step = step
        self._conclude = conclude
        self._is_abandoned = False
        self._outcome: Answer | PendingAnswer | None = None
        self._error: Exception | None = None

    def on_ready(self, callback: Callable[[], None]) -> None:
        """See `PendingAnswer`."""
        self._step.add_done_callback(lambda _: self._stepped(callback))

    def _stepped(self, callback: Callable[[], None]) -> None:
        try:
            self._outcome = self._conclude(self._step.result)
        except asyncio.CancelledError:
            self._error = CloseConnectionError("the broker is stopping")
        except Exception as error:
            self._error = error
        if self._outcome is None or isinstance(self._outcome, list):
            callback()
        elif not self._is_abandoned:
            self._outcome.on_ready(callback)  # the login has failed, and its end is held back

    def result(self) -> Answer | None:
        """See `PendingAnswer`."""
        if self._error is not None:
            raise self._error
        return self._outcome if self._outcome is None or isinstance(self._outcome, list) else self._outcome.result()

    def abandon(self) -> None:
        """See `PendingAnswer`. The step is completed, so that the audit log has its result."""
        self._is_abandoned = True
        if self._outcome is not None and not isinstance(self._outcome, list):
            self._outcome.abandon()
