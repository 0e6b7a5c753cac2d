"""The readers of a Python worker: a task borrows one, and gives it back at its end."""

from collections.abc import Mapping
from typing import Any, Final

from client.consumer.reader import Reader
from spark_connector.idle_clients import IdleClients
from spark_connector.retry import until_reached

_READER_ONLY: Final = ("default_api_timeout_ms", "group_id")
_idle: Final = IdleClients[Reader]()


async def borrow(options: Mapping[str, Any]) -> Reader:
    """A reader with these options. Raises NoBrokersAvailableError, InvalidOptionError."""
    reader = _idle.take(options)
    if reader is not None:
        return reader
    known = {name: value for name, value in options.items() if name not in _READER_ONLY}
    reader = Reader(**{"client_id": "ottla-spark", **known, "auto_offset_reset": "none"})
    try:
        await until_reached(reader.start, options)
    except BaseException:
        await reader.close()
        raise
    return reader


async def give_back(reader: Reader, options: Mapping[str, Any], *, is_sound: bool) -> None:
    """Return a reader after a task. If it is not sound, it is closed: it may hold an error, or fetches in flight."""
    if not is_sound:
        await reader.close()
        return
    reader.assign({})
    _idle.put(reader, options)


def idle_readers() -> int:
    """The number of readers that wait for a task."""
    return len(_idle)
