"""A broker of a program whose start is cancelled: nothing of it stays, wherever it was."""

import asyncio

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from ottla.cluster.ports import free_ports
from support.broker import settings
from support.counts import count


async def cancelled_after(steps, broker):
    """Cancel the start after so many turns of the event loop. False where it was ready before."""
    starting = asyncio.create_task(broker.__aenter__())
    for _ in range(steps):
        await asyncio.sleep(0)
        if starting.done():
            await starting
            await broker.__aexit__(None, None, None)
            return False
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    return True


@pytest.mark.counted
async def test_a_cancelled_start_releases_the_lock_and_the_port(tmp_path):
    """The next start, in the same directory and on the same port, would say so."""
    (port,) = free_ports(1)
    config = BrokerConfig.load(None, settings(tmp_path / "data", listeners=f"PLAINTEXT://127.0.0.1:{port}"))
    tasks = asyncio.all_tasks()
    steps = 0
    while await cancelled_after(steps, Broker(config)):
        assert asyncio.all_tasks() == tasks
        steps += count(25, 1)
    assert steps
