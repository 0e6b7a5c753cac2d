"""A client on the level of frames: it sends any frame to a broker and decodes answers completely."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from protocol.api_keys import request_class, response_class
from protocol.compression import CompressionType
from protocol.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from protocol.message import Message
from protocol.message_set import MessageSetBuilder
from protocol.record_batch_builder import RecordBatchBuilder
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.polling import until
from support.reference import REFERENCE

# Of today: retention takes what is older than a week half a minute after a broker's start.
NOW_MS = int(time.time()) * 1000
M = TypeVar("M", bound=Message)


class ConnectionClosedError(Exception):
    """The broker closed the connection."""


def frame(request: Message, version: int, correlation_id: int = 1, client_id: str | None = "wire") -> bytes:
    """A request frame with its size prefix."""
    header = RequestHeader(
        request_api_key=request.API_KEY,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    pieces = header.encode(request_header_version(request.API_KEY, version)) + request.encode(version)
    body = b"".join(bytes(piece) for piece in pieces)
    return struct.pack(">i", len(body)) + body


def decode_answer(data: bytes, api_key: int, version: int) -> tuple[int, Message]:
    """(correlation id, message) of an answer without its size prefix; fails where bytes are left over."""
    header, offset = ResponseHeader.decode(data, response_header_version(api_key, version))
    message, end = response_class(api_key).decode(data, version, offset)
    assert end == len(data), f"{len(data) - end} bytes left over after {message!r}"
    return header.correlation_id, message


class WireClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    @classmethod
    async def open(cls, bootstrap: str, tls: ssl.SSLContext | None = None) -> WireClient:
        host, port = bootstrap.rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port), ssl=tls))

    def close(self) -> None:
        self.writer.close()

    def send(self, request: Message, version: int, client_id: str | None = "wire") -> int:
        self._correlation_id += 1
        self.writer.write(frame(request, version, self._correlation_id, client_id))
        return self._correlation_id

    def send_raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive_raw(self) -> bytes:
        try:
            async with asyncio.timeout(2 * DEADLINE_S):  # the broker's answer after DEADLINE_MS says more
                (size,) = struct.unpack(">i", await self.reader.readexactly(4))
                return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise ConnectionClosedError from error

    async def receive(self, api_key: int, version: int) -> tuple[int, Message]:
        return decode_answer(await self.receive_raw(), api_key, version)

    async def call(self, request: Message, version: int | None = None, client_id: str | None = "wire") -> Any:
        """Send one request and return its answer."""
        version = request.MAX_VERSION if version is None else version
        sent = self.send(request, version, client_id)
        correlation_id, answer = await self.receive(request.API_KEY, version)
        assert correlation_id == sent
        return answer

    async def is_closed(self) -> bool:
        """Wait until the broker has closed the connection without an answer."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True


@contextlib.asynccontextmanager
async def wire_client(bootstrap: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[WireClient]:
    client = await WireClient.open(bootstrap, tls)
    try:
        yield client
    finally:
        client.close()


# -- requests that many tests make ------------------------------------------------------------------------------------


def batch(
    *values: bytes | None,
    key: bytes | None = b"k",
    codec: CompressionType = CompressionType.NONE,
    timestamp: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """One record batch of magic 2."""
    builder = RecordBatchBuilder(
        0,
        codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    for i, value in enumerate(values):
        builder.append(timestamp + i, key, value)
    return builder.build()


def message_set(
    magic: int, *values: bytes | None, key: bytes | None = b"k", codec: CompressionType = CompressionType.NONE
) -> bytearray:
    """One message set of magic 0 or 1."""
    builder = MessageSetBuilder(magic, codec)
    for i, value in enumerate(values):
        builder.append(i, NOW_MS + i if magic else -1, key, value)
    return bytearray(builder.build())


def produce(
    topic: str,
    records: Any,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    timeout_ms: int = DEADLINE_MS,
) -> Any:
    """A Produce request for one partition."""
    from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


async def append(
    client: WireClient,
    topic: str,
    records: Any,
    partition: int = 0,
    acks: int = -1,
    version: int = 11,
    timeout_ms: int = DEADLINE_MS,
) -> Any:
    """Produce to one partition; returns its answer."""
    answer = await client.call(produce(topic, records, partition, acks, timeout_ms=timeout_ms), version)
    return answer.responses[0].partition_responses[0]


def fetch(topic: str, offset: int = 0, partition: int = 0, **fields: Any) -> Any:
    """A Fetch request for one partition by name (up to v12); fields of the request or of its partition."""
    from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    names = {field.name for field in FetchPartition.FIELDS}
    of_partition = {name: fields.pop(name) for name in list(fields) if name in names}
    one = FetchPartition(
        **{"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20} | of_partition
    )
    topic_id = fields.pop("topic_id", bytes(16))
    named = FetchTopic(topic=topic, topic_id=topic_id, partitions=[one])
    defaults = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24, "session_epoch": -1}
    return FetchRequest(**defaults | {"topics": [named]} | fields)


async def create_topic(client: WireClient, name: str, partitions: int = 1, **configs: str) -> bytes:
    """Create a topic and wait for its leaders; configs have _ for each dot. Returns its id."""
    from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    answer = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=DEADLINE_MS))
    assert answer.topics[0].error_code == 0, answer
    return answer.topics[0].topic_id


async def until_led(ask: Callable[[Message], Awaitable[Any]]) -> None:
    """Wait until the broker leads all partitions. A lone broker is ready a moment before it leads what it had."""
    from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
    from protocol.messages.metadata import MetadataRequest

    topics = [
        ListOffsetsTopic(
            name=topic.name,
            partitions=[
                ListOffsetsPartition(partition_index=one.partition_index, timestamp=-1) for one in topic.partitions
            ],
        )
        for topic in (await ask(MetadataRequest(topics=None))).topics
    ]

    async def is_led() -> bool:
        found = await ask(ListOffsetsRequest(replica_id=-1, topics=topics))
        return not any(one.error_code for topic in found.topics for one in topic.partitions)

    await until(is_led, "the broker leads its partitions")


# -- recorded conversations -------------------------------------------------------------------------------------------


def recorded_pairs(file: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(request, response) of one file of recorded frames, in the order in which they were sent."""
    halves: dict[int, dict[str, dict[str, Any]]] = {}
    with (REFERENCE / "wire" / file).open() as lines:
        for line in lines:
            one = json.loads(line)
            halves.setdefault(one["pair"], {})[one["direction"]] = one
    return [(pair["request"], pair["response"]) for pair in halves.values() if len(pair) == 2]


def request_of(recorded: dict[str, Any]) -> Message:
    """The message of a recorded request."""
    data = bytes.fromhex(recorded["frame"])
    key, version = recorded["api_key"], recorded["api_version"]
    _, offset = RequestHeader.decode(data, request_header_version(key, version))
    message, end = request_class(key).decode(data, version, offset)
    assert end == len(data)
    return message


def response_of(recorded: dict[str, Any]) -> Message:
    """The message of a recorded response."""
    data = bytes.fromhex(recorded["frame"])
    return decode_answer(data, recorded["api_key"], recorded["api_version"])[1]
