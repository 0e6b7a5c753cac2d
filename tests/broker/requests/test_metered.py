"""The time of a coroutine's steps is counted, and nothing else about it changes."""

import asyncio

import pytest

from broker.requests import context as contexts
from broker.requests.context import RequestContext
from broker.requests.metered import Metered


class Clock:
    """Each piece of work takes the time that the test says."""

    def __init__(self, monkeypatch):
        self.now_s = 5.0
        monkeypatch.setattr(contexts, "perf_counter", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


async def test_only_the_steps_are_counted(clock):
    async def work():
        clock.now_s += 1
        await asyncio.sleep(0)
        clock.now_s += 2
        return "done"

    async def meanwhile():
        clock.now_s += 100

    context = RequestContext(None, 0, 0, None)
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(Metered(work(), context))
        tasks.create_task(meanwhile())
    assert await working == "done"
    assert context.busy_s == 3
    context.resume()
    clock.now_s += 4
    assert context.worked_s == 7


async def test_results_and_exceptions_pass(clock):
    async def work():
        with pytest.raises(ValueError, match="thrown in"):
            await asyncio.get_running_loop().run_in_executor(None, refuse)
        clock.now_s += 1
        raise KeyError("thrown out")

    def refuse():
        raise ValueError("thrown in")

    async def awaits(one):
        return await one

    context = RequestContext(None, 0, 0, None)
    with pytest.raises(KeyError, match="thrown out"):
        await awaits(Metered(work(), context))
    assert context.busy_s == 1


async def test_a_cancelled_task_cancels_the_work(clock):
    seen = []

    async def work():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            clock.now_s += 2
            seen.append("cancelled")
            raise

    async def awaits(one):
        return await one

    context = RequestContext(None, 0, 0, None)
    task = asyncio.create_task(awaits(Metered(work(), context)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]
    assert context.busy_s == 2


def test_work_that_never_begins_is_closed(clock):
    async def work():
        raise AssertionError("never")

    one = Metered(work(), RequestContext(None, 0, 0, None))
    assert asyncio.iscoroutine(one)
    one.close()  # a coroutine that is not closed causes a warning, which is an error in tests
