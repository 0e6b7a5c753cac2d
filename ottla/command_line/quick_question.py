"""A question to a cluster that must not take longer than a second, whatever the network does: for completion."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from ottla.command_line.clients import Admin

T = TypeVar("T")

DEADLINE_S: Final = 1.0


def ask(bootstrap_server: str, question: Callable[[Admin], Awaitable[T]]) -> T:
    """Return the answer. Raises TimeoutError after DEADLINE_S, and the errors of the client."""

    async def main() -> T:
        async with asyncio.timeout(DEADLINE_S), Admin(bootstrap_servers=bootstrap_server) as admin:
            return await question(admin)

    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(main())


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_AbandonedThreads())
    return loop


class _AbandonedThreads(ThreadPoolExecutor):
    """Runs each call in a daemon thread and does not wait for it: a name server may not answer for a long time."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def call() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=call, daemon=True).start()
        return future
