"""The producers of a Python worker, which keep their producer ids: a task borrows one, and gives it back when all of
its rows are acknowledged. That of a task that failed is closed, with what still waits in it.
"""

from collections.abc import Mapping
from typing import Any, Final

from client.producer.producer import Producer
from spark_connector.idle_clients import IdleClients
from spark_connector.retry import retry

_MAX_BLOCK_MS: Final = 60_000  # of a producer, where none is set
_idle: Final = IdleClients[Producer]()


async def borrow(options: Mapping[str, Any]) -> Producer:
    """A producer with these options, started. Raises NoBrokersAvailableError, InvalidOptionError."""
    return _idle.take(options) or await open_producer(options)


async def open_producer(options: Mapping[str, Any]) -> Producer:
    """A new producer, started; a cluster that is away is waited for, for max_block_ms. Raises what the client does."""
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
    """The task is done with it. One that is not sound is closed, and what waits in it is not sent any more."""
    if is_sound:
        _idle.put(producer, options)
    else:
        await producer.close(timeout_s=0)


def new_producer(options: Mapping[str, Any]) -> Producer:
    """A producer for a task, not started. Raises InvalidOptionError for a value that breaks a rule."""
    return Producer(**{"client_id": "ottla-spark", **options})
