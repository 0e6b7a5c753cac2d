"""Runs tests of sockets on both event loops that the broker supports."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from support.deadlines import DEADLINE_S

LOOPS: list[Any] = [pytest.param(asyncio.new_event_loop, id="asyncio")]
try:
    import uvloop
except ImportError:  # it is in the extra `fast`
    pass
else:
    LOOPS.append(pytest.param(uvloop.new_event_loop, id="uvloop"))


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a coroutine a test that runs once on each loop. An unhandled exception on the loop fails the test."""

    def run(loop_factory: Any, **fixtures: Any) -> None:
        unhandled: list[dict[str, Any]] = []

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(dict(context)))
            async with asyncio.timeout(DEADLINE_S):
                await test(**fixtures)

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())
        assert unhandled == [], unhandled

    functools.update_wrapper(run, test)
    del run.__wrapped__  # type: ignore[attr-defined]
    parameters = [
        inspect.Parameter("loop_factory", inspect.Parameter.KEYWORD_ONLY),
        *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in inspect.signature(test).parameters.values()),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return pytest.mark.parametrize("loop_factory", LOOPS)(run)
