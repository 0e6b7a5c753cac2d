"""Produce records: a stream of them in one request, and batches.

A body without a Content-Length (chunked) is answered while it arrives: one line for each record, in the order of the
records. So a client may keep one request open for as long as it has records. A body with a Content-Length is answered
when it has been read: clients that send all of it before they read anything would wait for us, and we for them.

Statuses of records are in their lines: the answer has begun by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field, StringConstraints

from client.errors import KafkaError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from console.rest.answering import JSON
from console.rest.bodies import MAX_BODY
from console.rest.call import Call
from console.rest.errors import PARTITION_NOT_FOUND, RestError, rest_error
from console.rest.models import OMITTED_IF_NONE, Answer, Asked, ErrorAnswer, parsed
from console.v3.json_stream import JsonStream, JsonStreamError, ObjectTooLargeError
from console.v3.record_data import Data, Encoded, EncodedSize, Record, encoded, encoded_headers, size_of
from console.v3.schema_data import SchemaEncoder, needs_schema

MAX_RECORD: Final = 16 * 1024 * 1024
"""Bytes of one record in JSON. The producer's `max_request_size` is the limit of its key and value."""
MAX_IN_FLIGHT: Final = 1000
"""Records of one stream whose answers are not written yet. Then the stream is not read further."""
MAX_IN_FLIGHT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of JSON of records of one stream that are not acknowledged yet. Then the stream is not read further."""
MAX_ENTRIES: Final = 10_000
"""Records of one batch. A body of MAX_BODY bytes could contain a million, which block the event loop for seconds."""
MAX_IDLE_S: Final = 300.0
"""How long a stream may wait for its next bytes."""
_PIECE: Final = 64 * 1024


class ProducedRecord(Answer):
    """Where a record was written."""

    error_code: int = 200
    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str | None = OMITTED_IF_NONE
    key: EncodedSize | None = OMITTED_IF_NONE
    value: EncodedSize | None = OMITTED_IF_NONE


class BatchEntry(Record):
    """A record of a batch, with an id that is unique there."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=80)]


class Batch(Asked):
    """Records to produce."""

    entries: Annotated[list[BatchEntry], Field(min_length=1, max_length=MAX_ENTRIES)]


class ProducedEntry(Answer):
    """Where a record of a batch was written."""

    id: str
    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str | None = OMITTED_IF_NONE
    key: EncodedSize | None = OMITTED_IF_NONE
    value: EncodedSize | None = OMITTED_IF_NONE


class FailedEntry(Answer):
    """The error of a record of a batch."""

    id: str
    error_code: int
    message: str


class ProducedBatch(Answer):
    """What became of each record of a batch."""

    successes: list[ProducedEntry]
    failures: list[FailedEntry]


async def produce_batch(call: Call) -> ProducedBatch:
    """Produce a batch of records. Each of them may fail."""
    asked: Batch = call.asked
    ids = [one.id for one in asked.entries]
    if len(set(ids)) < len(ids):
        raise RestError(400, "the ids of the entries of a batch must differ")
    target = await _Target.of(call)
    found = await asyncio.gather(*[target.answer(one) for one in asked.entries])
    successes, failures = [], []
    for entry, one in zip(asked.entries, found, strict=True):
        if isinstance(one, ErrorAnswer):
            failures.append(FailedEntry(id=entry.id, error_code=one.error_code, message=one.message))
        else:
            fields = {name: getattr(one, name) for name in ProducedRecord.model_fields if name != "error_code"}
            successes.append(ProducedEntry(id=entry.id, **fields))
    return ProducedBatch(successes=successes, failures=failures)


async def produce(call: Call) -> web.StreamResponse:
    """Produce records: one JSON object, or a stream of them in one body. The answer has one line for each."""
    request = call.request
    if request.content_length is not None and request.content_length > MAX_BODY:
        raise RestError(413, f"A body of more than {MAX_BODY} bytes must be sent chunked, without a Content-Length.")
    target = await _Target.of(call)
    lines = _Lines(request, is_held=request.content_length is not None)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(lines.write())
            try:
                async for one in _objects(request):
                    await lines.add(tasks.create_task(target.answer_of(one)), len(one))
            except JsonStreamError as error:
                await lines.add_error(error)
            await lines.end()
    except BaseExceptionGroup as group:  # the others are cancelled because of the first
        raise group.exceptions[0] from None
    return lines.response


async def _objects(request: web.Request) -> AsyncIterator[bytes]:
    """Yield the objects of a body as they arrive. Raises JsonStreamError."""
    stream = JsonStream(MAX_RECORD)
    while piece := await _next_piece(request):
        for one in stream.feed(piece):
            yield one
    stream.close()


async def _next_piece(request: web.Request) -> bytes:
    """Return the next bytes of a body; none at its end. Raises JsonStreamError."""
    try:
        async with asyncio.timeout(MAX_IDLE_S):
            while not (piece := await request.content.readany()) and not request.content.at_eof():
                pass
    except TimeoutError:
        raise JsonStreamError(f"no record has arrived for {MAX_IDLE_S:g} s") from None
    return piece


class _Target:
    """The topic that records are produced to."""

    def __init__(self, call: Call, producer: Producer, partitions: set[int]) -> None:
        self._call = call
        self._producer = producer
        self._partitions = partitions
        self._order = asyncio.Lock()
        self._schema_encoder = SchemaEncoder(call.topic_name, call.services.schemas, call.services.subjects)

    @classmethod
    async def of(cls, call: Call) -> _Target:
        """Return the topic in the path. Raises UnknownTopicOrPartitionError."""
        topic = await call.topic()
        producer = await call.services.clients.producer()
        return cls(call, producer, set(topic.partitions))

    async def answer_of(self, body: bytes) -> ProducedRecord | ErrorAnswer:
        """Produce a record that is given as JSON."""
        try:
            record = parsed(Record, body)
        except RestError as error:
            return ErrorAnswer(error_code=error.code, message=error.message)
        assert isinstance(record, Record)
        return await self.answer(record)

    async def answer(self, record: Record) -> ProducedRecord | ErrorAnswer:
        """Produce a record. Up to the first wait, this is one step: records of a partition keep their order."""
        try:
            return await self._produce(record)
        except KafkaError as error:
            failed = rest_error(error)
        except RestError as error:
            failed = error
        return ErrorAnswer(error_code=failed.code, message=failed.message)

    async def _produce(self, record: Record) -> ProducedRecord:
        call, partition = self._call, record.partition_id
        async with self._order:  # first come, first served: schemas may have to be waited for
            key, value = await self._encoded("key", record.key), await self._encoded("value", record.value)
        headers = encoded_headers(record.headers)
        if partition is not None and partition not in self._partitions:
            await self._find(partition)
        written = await self._producer.send(
            call.topic_name,
            None if value is None else value.data,
            key=None if key is None else key.data,
            partition=partition,
            timestamp_ms=None if record.timestamp is None else milliseconds(record.timestamp),
            headers=headers,
        )
        return ProducedRecord(
            cluster_id=call.cluster_id,
            topic_name=written.topic,
            partition_id=written.partition,
            offset=written.offset,
            timestamp=time_text(written.timestamp),
            key=size_of(key),
            value=size_of(value),
        )

    async def _encoded(self, name: str, part: Data | None) -> Encoded | None:
        """Return a key or value as bytes. Raises RestError."""
        if part is not None and needs_schema(part, has_registry=self._call.services.schemas.is_configured):
            return await self._schema_encoder.encoded(name, part)
        return encoded(name, part)

    async def _find(self, partition: int) -> None:
        """Check whether the topic has grown: a producer waits for a partition that is missing. Raises RestError."""
        topic = await self._call.topic()
        self._partitions.update(topic.partitions)
        if partition not in self._partitions:
            raise RestError(404, f"there is no partition {TopicPartition(topic.name, partition)}", PARTITION_NOT_FOUND)


class _Lines:
    """Writes one line for each record, in the order of the records."""

    def __init__(self, request: web.Request, *, is_held: bool) -> None:
        """is_held: nothing is written before `end`."""
        self.response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-store"})
        self._request = request
        self._is_held = is_held
        self._pending: asyncio.Queue[asyncio.Future[ProducedRecord | ErrorAnswer] | None] = asyncio.Queue(MAX_IN_FLIGHT)
        self._is_empty = True
        self._unanswered_bytes = 0
        self._answered = asyncio.Event()

    async def add(self, answer: asyncio.Future[ProducedRecord | ErrorAnswer], size: int) -> None:
        """Write an answer when it is there, after those before it. Waits while there are too many.

        size: of the record, in bytes. Records wait for a slow broker, so their bytes are limited, too.
        """
        self._is_empty = False
        self._unanswered_bytes += size
        answer.add_done_callback(partial(self._release, size))
        await self._pending.put(answer)
        while self._unanswered_bytes > MAX_IN_FLIGHT_BYTES:
            self._answered.clear()
            await self._answered.wait()

    def _release(self, size: int, answer: asyncio.Future[ProducedRecord | ErrorAnswer]) -> None:
        self._unanswered_bytes -= size
        self._answered.set()

    async def add_error(self, error: JsonStreamError) -> None:
        """Write the error of the stream as its last line. Raises RestError if it is the first one."""
        status = 413 if isinstance(error, ObjectTooLargeError) else 400
        if self._is_empty:
            raise RestError(status, str(error))
        answer: asyncio.Future[ProducedRecord | ErrorAnswer] = asyncio.get_running_loop().create_future()
        answer.set_result(ErrorAnswer(error_code=status, message=str(error)))
        await self._pending.put(answer)

    async def end(self) -> None:
        """There are no more records. Raises RestError if there was none."""
        if self._is_empty:
            raise RestError(400, "Request body is empty. Data is required.")
        await self._pending.put(None)

    async def write(self) -> None:
        """Write all lines. Raises ConnectionResetError if the client has left."""
        held = bytearray()
        while (answer := await self._pending.get()) is not None:
            held += (await answer).to_json() + b"\n"
            if not self._is_held and (self._pending.empty() or len(held) >= _PIECE):
                await self._send(held)
                held.clear()
        await self._send(held)
        await self.response.write_eof()

    async def _send(self, lines: bytearray) -> None:
        if not self.response.prepared:
            await self.response.prepare(self._request)
        if lines:
            await self.response.write(bytes(lines))


def milliseconds(time: datetime) -> int:
    """Return a time as Kafka has it; without a time zone it is in UTC. Raises RestError for times before 1970."""
    found = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    if found < 0:
        raise RestError(400, f"timestamp: {time.isoformat()} is before 1970")
    return found


def time_text(timestamp_ms: int) -> str | None:
    """Return a timestamp as text; None for -1, and for times after the year 9999."""
    try:
        time = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z") if timestamp_ms >= 0 else None
