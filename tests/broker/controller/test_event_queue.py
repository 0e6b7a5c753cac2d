"""The controller's queue: an event that fails is handled again after delays that grow."""

import asyncio
import itertools
import random

import pytest

from broker.controller.event_queue import EventQueue
from client.wire.backoff import Backoff
from registry.errors import BadVersionError, RegistryFullError
from support.simulation.virtual_loop import VirtualTimeLoop


@pytest.mark.parametrize("error", [BadVersionError, RegistryFullError])
def test_the_delays_of_an_event_that_fails_grow_until_an_event_succeeds(error):
    handled_s = []

    async def handle():
        loop = asyncio.get_running_loop()
        queue = EventQueue(lambda: True, lambda: None, lambda: None, Backoff(100, 1_000, random.Random(1)))

        async def event():
            handled_s.append(loop.time())
            if len(handled_s) % 6:
                raise error("/path")

        queue.notice("first", event)
        for _ in range(6):
            await queue.handle_next()
        queue.notice("second", event)
        for _ in range(2):
            await queue.handle_next()

    loop = VirtualTimeLoop()
    loop.run_until_complete(handle())
    loop.close()
    waited_s = [after - before for before, after in itertools.pairwise(handled_s)]
    assert waited_s == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 0.0, 0.1], rel=0.2)
