"""The loop of `make test-perturbed` is late, and is a loop: callbacks and timers keep asyncio's order."""

import asyncio
import os
import random
import selectors
import socket
import subprocess
import sys

import pytest

from support.broker import ROOT
from support.perturbed.late_loop import Choices, LateLoop, LateSelector

FOLDER = ROOT / "tests" / "support" / "perturbed"


class Always:
    """Delays everything by as much as the test says."""

    def __init__(self, delay_s):
        self.delay_s = delay_s

    def delay(self, chance):
        return self.delay_s

    def sleep(self, chance):
        pass


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_the_events_of_a_socket_are_held_back_for_a_while(pair):
    ours, theirs = pair
    choices = Always(3600)
    with LateSelector(choices) as selector:
        selector.register(ours, selectors.EVENT_READ)
        theirs.send(b"x")
        assert selector.select(0) == []
        assert selector.select(0.001) == []
        selector._held_until[ours.fileno()] = 0  # the hour is over
        [(key, mask)] = selector.select()
        assert (key.fileobj, mask) == (ours, selectors.EVENT_READ)
        choices.delay_s = 0
        assert selector.select()  # what is not held back is seen at once, and again


def test_events_of_others_are_seen_meanwhile(pair):
    _, theirs = pair
    with LateSelector(Always(3600)) as selector:
        for one in pair:
            selector.register(one, selectors.EVENT_WRITE)
        assert selector.select(0) == []
        del selector._held_until[theirs.fileno()]
        selector._choices.delay_s = 0
        assert [key.fileobj for key, _ in selector.select()] == [theirs]


@pytest.mark.parametrize("seed", "abc")
def test_the_order_is_that_of_asyncio(seed):
    """Of callbacks, of timers, and of what one thread schedules."""
    rng = random.Random(seed)
    times_s = [rng.uniform(0, 0.1) for _ in range(50)]
    soon, timers, threads = [], [], []

    def schedule(loop):
        for number in range(50):
            loop.call_soon_threadsafe(threads.append, number)

    async def main():
        loop = asyncio.get_running_loop()
        now = loop.time()
        for when in times_s:
            loop.call_at(now + when, timers.append, when)
        for number in range(50):
            loop.call_soon(soon.append, number)
        await asyncio.to_thread(schedule, loop)
        await asyncio.sleep(0.1)

    with asyncio.Runner(loop_factory=lambda: LateLoop(Choices(seed))) as runner:
        runner.run(main())
    assert soon == threads == list(range(50))
    assert timers == sorted(times_s)


def test_processes_have_late_loops():
    look = "import asyncio, uvloop; print(*(type(one.new_event_loop()).__name__ for one in (asyncio, uvloop)))"

    def loops(**variables):
        environment = {name: value for name, value in os.environ.items() if name != "OTTLA_PERTURB"}
        command = [sys.executable, "-c", look]
        done = subprocess.run(
            command,
            env=environment | {"PYTHONPATH": str(FOLDER)} | variables,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    assert loops(OTTLA_PERTURB="1") == ["LateLoop", "LateLoop"]
    assert loops() == ["_UnixSelectorEventLoop", "Loop"]
