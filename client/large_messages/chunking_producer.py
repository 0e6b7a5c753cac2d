"""A producer of messages larger than the largest record.

    async with Producer(bootstrap_servers=...) as producer:
        large = ChunkingProducer(producer, chunk_size=512 * 1024)
        await large.send("files", content, key=b"a name")

A value above `chunk_size` is sent as several records (`chunk_headers`), all to the partition of the first record.
`ChunkingConsumer` joins them; for other consumers they are records with additional headers.
"""

import asyncio
import os
from collections.abc import Callable

from crc32c import crc32c

from client.errors import BufferFullError
from client.large_messages.chunk_headers import ChunkHeaders
from client.options import check_range, refuse, refuse_unknown
from client.producer.accumulator import RecordMetadata
from client.producer.producer import Headers, Producer


class ChunkingProducer:
    """Wraps a started producer, which the caller closes.

    `chunk_size`: the most bytes of a value in one record; with the key, the headers and some 200 bytes it must stay
    within the producer's `max_request_size` and the topic's `max.message.bytes`. `new_id` returns 16 unique bytes.

    Not for compacted topics, which keep only the last record of a key.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        chunk_size: int = 768 * 1024,
        new_id: Callable[[], bytes] = lambda: os.urandom(16),
        **unknown: object,
    ) -> None:
        refuse_unknown(unknown, ChunkingProducer)
        check_range("chunk_size", chunk_size, 1)
        if producer._value_serializer is not None:
            raise refuse("value_serializer", producer._value_serializer, "must be None: chunks are cut from bytes")
        self._producer = producer
        self._chunk_size = chunk_size
        self._new_id = new_id

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
        """Send a message, wait until all of it is acknowledged, and return where its last record was written.

        Messages that are sent concurrently are in the order of their last chunks. Raises the errors of `Producer.send`:
        then consumers give the message up, and sending it again makes a new message.
        """
        if value is None or len(value) <= self._chunk_size:
            return await self._producer.send(
                topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        view = memoryview(value)
        parts = [view[start : start + self._chunk_size] for start in range(0, len(value), self._chunk_size)]
        message, crc = self._new_id(), crc32c(value)

        def chunk(index: int) -> list[tuple[str, bytes | None]]:
            return list(ChunkHeaders(message, index, len(parts), len(value), crc).encode())

        written = await self._producer.send(
            topic,
            bytes(parts[0]),
            key=key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=[*headers, *chunk(0)],
        )
        # One task passes the chunks to the producer, so they are in order; awaiting each would cost a round trip per
        # chunk.
        sent = []
        for index in range(1, len(parts)):
            while True:
                try:
                    future = self._producer.send_nowait(
                        topic,
                        bytes(parts[index]),
                        key=key,
                        partition=written.partition,
                        timestamp_ms=timestamp_ms,
                        headers=chunk(index),
                    )
                except BufferFullError:
                    await self._producer.buffer_has_room()
                else:
                    sent.append(future)
                    break
        return (await asyncio.gather(*sent))[-1]
