"""Reads of many keys at once."""

import asyncio

import pytest

from registry.errors import ConnectionLossError
from registry.pipeline import READS_AT_ONCE, read_all


async def test_results_are_in_the_order_of_keys_and_concurrent_reads_are_bounded():
    running = most = 0

    async def read(key):
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(1 + key % 3):
            await asyncio.sleep(0)
        running -= 1
        return -key

    keys = list(range(3 * READS_AT_ONCE + 1))
    assert await read_all(read, keys) == [-key for key in keys]
    assert most == READS_AT_ONCE
    assert await read_all(read, []) == []


async def test_an_error_of_one_read_is_raised():
    async def read(key):
        if key == 7:
            raise ConnectionLossError("gone")

    with pytest.raises(ConnectionLossError):
        await read_all(read, range(10))
