"""A producer that puts large values into a store and sends claims for them.

    async with Producer(bootstrap_servers=...) as producer:
        large = ClaimCheckProducer(producer, store="s3://bucket/large", threshold=100_000)
        await large.send("files", content, key=b"a name")

`ClaimCheckConsumer` replaces the claims by the values.
"""

import datetime
import uuid
from collections.abc import Callable

from client.large_messages.blob_store import BlobStore
from client.large_messages.claim import HEADER
from client.options import check_range, refuse, refuse_unknown
from client.producer.accumulator import RecordMetadata
from client.producer.producer import Headers, Producer


def _new_name() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}/{uuid.uuid4().hex}"


class ClaimCheckProducer:
    """Wraps a started producer, which the caller closes.

    A value above `threshold` bytes is written to the store as `<topic>/<date>/<random>`. Then the record is sent, with
    the claim (`claim`) as its value and its own key, headers and timestamp. If sending fails, the value stays in the
    store.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        store: str,
        threshold: int = 512 * 1024,
        new_name: Callable[[], str] = _new_name,
        **unknown: object,
    ) -> None:
        refuse_unknown(unknown, ClaimCheckProducer)
        check_range("threshold", threshold, 0)
        if producer._value_serializer is not None:
            raise refuse("value_serializer", producer._value_serializer, "must be None: values are stored as bytes")
        self._producer = producer
        self._threshold = threshold
        self._store = BlobStore(store)
        self._new_name = new_name

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Send a record and wait until it is acknowledged. Raises the errors of `Producer.send`, and OSError."""
        if value is not None and len(value) > self._threshold:
            value = (await self._store.put(f"{topic.lstrip('.') or '_'}/{self._new_name()}", value)).encode()
            headers = [*headers, (HEADER, b"1")]
        return await self._producer.send(
            topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
        )
