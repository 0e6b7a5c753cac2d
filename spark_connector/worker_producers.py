"""The producers of a Python worker, which keep their producer ids. A task borrows one, and gives it back when all its
rows are acknowledged. The producer of a failed task is closed, and discards its waiting records.
"""

from collections.abc import Mapping
from typing import Any, Final

from client.producer.producer import Producer
from spark_connector.idle_clients import IdleClients
from spark_connector.retry import retry

_MAX_BLOCK_MS: Final = 60_000  # a producer's default
_idle: Final = IdleClients[Producer]()


async def borrow(options: Mapping[str, Any]) -> Producer:
    """A started producer with these options. Raises NoBrokersAvailableError, InvalidOptionError."""
    return _idle.take(options) or await open_producer(options)


async def open_producer(options: Mapping[str, Any]) -> Producer:
    """Start a new producer; wait for an unreachable cluster, for max_block_ms. Raises the client's errors."""
    timeout_s = options.get("max_block_ms", _MAX_BLOCK_MS) / 1000

    async def start() -> Producer:
        producer = new_producer(options)
        try:
            await producer.start()
        except BaseException:
            await producer.close(timeout_s=0)
            raise
        return producer

    return await retry(start, timeout_s=timeout_s)


async def give_back(producer: Producer, options: Mapping[str, Any], *, is_sound: bool) -> None:
    """Return a producer after a task. If it is not sound, it is closed, and its waiting records are discarded."""
    if is_sound:
        _idle.put(producer, options)
    else:
        await producer.close(timeout_s=0)


def new_producer(options: Mapping[str, Any]) -> Producer:
    """A producer for a task, not started. Raises InvalidOptionError for a value that breaks a rule."""
    return Producer(**{"client_id": "ottla-spark", **options})
