"""The token bucket, in virtual time."""

import asyncio
from bisect import bisect_left

import pytest

from client.consumer.fetched import ConsumerRecord
from client.errors import InvalidOptionError
from client.listener.rate_limit import RateLimit
from support.simulation.virtual_loop import VirtualTimeLoop


class MovingLoop(VirtualTimeLoop):
    """Time goes on a little whenever it is asked for: aiolimiter waits for parts of a token too small to be a time."""

    def time(self):
        self._now += 1e-9
        return self._now


@pytest.fixture
def loop():
    loop = MovingLoop()
    yield loop
    loop.close()


def record(size):
    return ConsumerRecord("t", 0, 0, 0, 0, None, b"x" * size, ())


def times(loop, limit, sizes, order=None):
    """When each of so many tasks that wait at once may go; `order` gets their sizes."""
    gone = []

    async def go(size):
        await limit.wait([record(size)])
        gone.append(loop.time())
        if order is not None:
            order.append(size)

    async def all_go():
        await asyncio.gather(*map(go, sizes))

    loop.run_until_complete(all_go())
    return gone


@pytest.mark.parametrize("burst", [1, 50, None])
def test_records(loop, burst):
    gone = times(loop, RateLimit(records=200, burst=burst), [1] * 2_000)
    most = max(bisect_left(gone, start + 1) - number for number, start in enumerate(gone))
    assert most <= 200 + (burst or 200) + 1
    held_up = (2_000 - (burst or 200)) / 200
    assert gone[-1] == pytest.approx(held_up, abs=0.02)  # and no slower than it may be


def test_bytes(loop):
    gone = times(loop, RateLimit(bytes=1_000), [500, 500, 500, 3_000, 0])
    assert gone[:2] == pytest.approx([0, 0], abs=0.01)
    assert gone[-1] == pytest.approx(3.5, abs=0.01)


def test_large_records_do_not_wait_for_later_small_ones(loop):
    sizes, order = [900, 1_500, 700, 20, 10, 300], []
    times(loop, RateLimit(bytes=1_000), sizes, order)
    assert order == sizes


@pytest.mark.parametrize("options", [{}, {"records": 1, "bytes": 1}, {"records": 0}, {"bytes": 5, "burst": 0}])
def test_invalid_rates_are_refused(options):
    with pytest.raises(InvalidOptionError):
        RateLimit(**options)
