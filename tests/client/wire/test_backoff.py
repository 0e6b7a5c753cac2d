"""The delays between attempts: they grow, with jitter, and start again after a success."""

import asyncio
import logging
import random

from client.wire.backoff import Backoff, Retries
from support.simulation.virtual_loop import VirtualTimeLoop

MIDDLES = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_backoff_doubles_to_its_limit_with_jitter():
    backoff = Backoff(100, 1000, random.Random(1))
    for attempt, middle in enumerate(MIDDLES):
        delays = [backoff.delay_s(attempt) for _ in range(200)]
        assert 0.8 * middle <= min(delays) < 0.9 * middle
        assert 1.1 * middle < max(delays) <= 1.2 * middle
    assert backoff.delay_s(10_000) <= 1.2


def test_the_delays_of_an_operation_grow_until_it_succeeds():
    backoff, same = (Backoff(random=random.Random(1)) for _ in range(2))
    retries = Retries(backoff)
    assert [retries.next_delay_s() for _ in MIDDLES] == [same.delay_s(attempt) for attempt in range(len(MIDDLES))]
    assert retries.failures == len(MIDDLES)
    retries.succeeded()
    assert retries.next_delay_s() == same.delay_s(0)


def test_waiting_counts_a_failure_and_takes_its_delay():
    retries, same = (Retries(Backoff(100, 1000, random.Random(1))) for _ in range(2))

    async def wait():
        for _ in range(3):
            await retries.wait()
        return asyncio.get_running_loop().time()

    loop = VirtualTimeLoop()
    assert loop.run_until_complete(wait()) == sum(same.next_delay_s() for _ in range(3))
    assert retries.failures == 3
    loop.close()


def test_only_the_first_failure_is_logged_at_its_level():
    retries = Retries(Backoff())
    levels = []
    for _ in range(2):
        levels.append(retries.log_level(logging.WARNING))
        retries.next_delay_s()
    assert levels == [logging.WARNING, logging.DEBUG]
    retries.succeeded()
    assert retries.log_level(logging.INFO) == logging.INFO
