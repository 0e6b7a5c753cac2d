"""What a listener container does if a handler raises an exception.

    Retry(5, then=DeadLetter(producer))     # five retries, then to the topic orders.DLT, then continue
    Retry(2, then=Stop())                   # the default is Retry(): ten attempts in all, then stop
    Skip()                                  # log the error and continue

An error handler is any object with a method `failed` as in `ErrorHandler`.
"""

import asyncio
import logging
import random as random_module
import struct
import traceback
from collections.abc import Sequence
from typing import Any, Protocol

from client.consumer.fetched import ConsumerRecord
from client.errors import HandlerFailedError
from client.options import check_range
from client.producer.producer import Producer
from client.wire.backoff import Backoff

logger = logging.getLogger(__name__)


class ErrorHandler(Protocol):
    """Decides about records whose handler has raised an exception."""

    async def failed(self, records: Sequence[ConsumerRecord], error: Exception, attempt: int) -> bool:
        """Return True to handle the records again, False to count them as handled. An exception stops the container.

        `attempt` is the number of the failed attempt, from 1. Meanwhile other records with the same key wait, and all
        earlier records are committed.
        """
        ...


class Stop:
    """Stops the container: its `run` raises HandlerFailedError, and the next start reads the records again."""

    async def failed(self, records: Sequence[ConsumerRecord], error: Exception, attempt: int) -> bool:
        """Raise HandlerFailedError."""
        what = f"the handler failed on {name_of(records)}: {type(error).__name__}: {error}"
        raise HandlerFailedError(what, records) from error


class Skip:
    """Logs the error, with its traceback, and continues: the records count as handled."""

    async def failed(self, records: Sequence[ConsumerRecord], error: Exception, attempt: int) -> bool:
        """Log the error and return False."""
        logger.error("skipped after %d attempts: %s", attempt, name_of(records), exc_info=error)
        return False


class Retry:
    """Handles records again up to `retries` times, with growing pauses and jitter, then lets `then` decide.

    The first pause is about `backoff_ms`; each further pause is twice as long, up to `max_backoff_ms`. `only`:
    exceptions of other types go to `then` at once. Meanwhile the partition waits (with `concurrency` only records of
    the same key), other partitions do not, and the consumer stays in the group.
    """

    def __init__(
        self,
        retries: int = 9,
        *,
        backoff_ms: int = 100,
        max_backoff_ms: int = 10_000,
        only: type[Exception] | tuple[type[Exception], ...] = Exception,
        then: ErrorHandler | None = None,
        random: random_module.Random | None = None,
    ) -> None:
        check_range("retries", retries, 0)
        check_range("backoff_ms", backoff_ms, 0)
        check_range("max_backoff_ms", max_backoff_ms, backoff_ms)
        self._retries = retries
        self._backoff = Backoff(backoff_ms, max_backoff_ms, random)
        self._only = only
        self._then: ErrorHandler = Stop() if then is None else then

    async def failed(self, records: Sequence[ConsumerRecord], error: Exception, attempt: int) -> bool:
        """Wait and return True; after the last retry, return the decision of `then`."""
        if attempt > self._retries or not isinstance(error, self._only):
            return await self._then.failed(records, error, attempt)
        pause_s = self._backoff.delay_s(attempt - 1)
        logger.warning("attempt %d for %s failed, retrying in %.3g s: %r", attempt, name_of(records), pause_s, error)
        await asyncio.sleep(pause_s)
        return True


class DeadLetter:
    """Sends the records to another topic, and continues.

    `topic` contains `{topic}` for the original topic. The record keeps key, value, timestamp, headers and partition (or
    gets one by its key if the topic has fewer partitions). It gets Spring Kafka's headers `kafka_dlt-original-topic`,
    `-partition` (4 bytes), `-offset`, `-timestamp` (8 bytes, big endian), `-timestamp-type`,
    `kafka_dlt-exception-fqcn`, `-message` and `-stacktrace`. A failed send stops the container, so no record is lost.
    Keys and values that deserializers have changed need the producer's serializers.
    """

    def __init__(self, producer: Producer, topic: str = "{topic}.DLT") -> None:
        self._producer = producer
        self._topic = topic

    async def failed(self, records: Sequence[ConsumerRecord], error: Exception, attempt: int) -> bool:
        """Send all records and wait until they are acknowledged. Raises the producer's errors."""
        target = self._topic.format(topic=records[0].topic)
        logger.error("sending to %s after %d attempts: %s", target, attempt, name_of(records), exc_info=error)
        partitions = await self._producer.partitions_for(target)
        for record in records:  # one by one, so that they keep their order even if one is too large to be sent
            await self._producer.send(
                target,
                record.value,
                key=record.key,
                partition=record.partition if record.partition in partitions else None,
                timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
                headers=(*record.headers, *_headers(record, error)),
            )
        return False


def _headers(record: ConsumerRecord, error: Exception) -> list[tuple[str, bytes]]:
    kind = type(error)
    values: list[tuple[str, Any]] = [
        ("original-topic", record.topic),
        ("original-partition", struct.pack(">i", record.partition)),
        ("original-offset", struct.pack(">q", record.offset)),
        ("original-timestamp", struct.pack(">q", record.timestamp)),
        ("original-timestamp-type", "LogAppendTime" if record.timestamp_type else "CreateTime"),
        ("exception-fqcn", f"{kind.__module__}.{kind.__qualname__}"),
        ("exception-message", str(error)),
        ("exception-stacktrace", "".join(traceback.format_exception(error))),
    ]
    return [(f"kafka_dlt-{name}", value if isinstance(value, bytes) else value.encode()) for name, value in values]


def name_of(records: Sequence[ConsumerRecord]) -> str:
    """Topic, partition and offsets, for messages."""
    first, last = records[0], records[-1]
    offsets = f"offset {first.offset}" if len(records) == 1 else f"offsets {first.offset} to {last.offset}"
    return f"{first.topic}-{first.partition} {offsets}"
