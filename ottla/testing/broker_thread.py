"""A broker in a thread of this process, with an event loop of its own.

Blocking clients (confluent-kafka, kafka-python) and asyncio clients can use it from every other thread: it does not
need the caller's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.wire.event_loop import new_event_loop

SETTINGS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "ottla.console.listener": "",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""Settings of a broker for tests that differ from Kafka's: a free port, no console, and nothing to wait for."""


class BrokerThread:
    """A broker in a thread. A context manager, `with` and `async with`; or call `start` and `stop`.

    `start` may be called again after `stop`: with a `directory` the broker then has its data again, on another port
    unless `listeners` names one.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, *, directory: Path | str | None = None) -> None:
        """settings: broker settings by Kafka's names, over `SETTINGS`.

        directory: the log directory, which is kept; by default a temporary one, which `stop` removes.
        """
        self._settings = SETTINGS | dict(settings or {})
        self._directory = directory
        self._running: contextlib.ExitStack | None = None
        self._ended: Future[None]
        self._loop: asyncio.AbstractEventLoop
        self._broker: Broker

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, "host:port". Raises RuntimeError if the broker does not run."""
        if self._running is None:
            raise RuntimeError("the broker does not run: call start() or use it in a with statement")
        return self._broker.bootstrap_servers

    def start(self) -> Self:
        """Start the broker, and return when it serves clients. Raises what prevents the start."""
        if self._running is not None:
            raise RuntimeError("the broker runs already")
        ready: Future[None] = Future()
        self._ended = Future()
        with contextlib.ExitStack() as stack:
            log_dirs = self._directory or stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-"))
            self._broker = Broker(BrokerConfig.load(overrides={"log.dirs": str(log_dirs)} | self._settings))
            self._loop = new_event_loop()
            thread = threading.Thread(target=self._run, args=(ready,), name="ottla-broker", daemon=True)
            thread.start()
            stack.callback(self._end, thread)
            ready.result()
            self._running = stack.pop_all()
        return self

    def stop(self) -> None:
        """Stop the broker cleanly, and return when it has stopped. Raises the error that ended it before, if any."""
        if self._running is not None:
            running, self._running = self._running, None
            running.close()
            self._ended.result()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:  # the thread starts the broker nevertheless
            with contextlib.suppress(Exception):
                await starting
                await asyncio.to_thread(self.stop)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _end(self, thread: threading.Thread) -> None:
        """Stop the broker and wait for the end of its thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed: it has ended
            self._loop.call_soon_threadsafe(self._broker.stop)
        thread.join()

    def _run(self, ready: Future[None]) -> None:
        """Run the broker in this thread until it ends; complete `ready` and `_ended`."""
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._broker.run(lambda _: ready.set_result(None)))
        except BaseException as error:
            (self._ended if ready.done() else ready).set_exception(error)
        else:
            self._ended.set_result(None)


def broker(settings: Mapping[str, str] | None = None, *, directory: Path | str | None = None) -> BrokerThread:
    """Return a broker for a `with` or `async with` statement; it starts when the block begins. See `BrokerThread`."""
    return BrokerThread(settings, directory=directory)
