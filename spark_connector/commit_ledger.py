"""The last committed batch of a query and its transactions, recorded in the cluster that the query writes to.

The ledger of a query is the compacted topic `<transactionalIdPrefix>-commits` with one partition, created if it does
not exist. Its last record is the last decision, as JSON:

    {"query": "<id>", "batch": 7, "transactions": [["<transactional id>", <producer id>, <producer epoch>], …]}

Each decision is written in a transaction with the transactional id `<transactionalIdPrefix>-commits`. Opening the
ledger fences the previous opener, which then cannot write decisions, so what is read is final until the new opener
writes. The topic contains only such transactions, so the last record is near the end and is found without a scan.
"""

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple, Self

from client.admin.admin import Admin
from client.consumer.offsets import EARLIEST, LATEST
from client.consumer.reader import Reader
from client.errors import KafkaError
from client.producer.prepared_transaction import PreparedTransaction
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from spark_connector.errors import BatchError
from spark_connector.kafka_options import SECURITY_OPTIONS

KEY: Final = b"last-commit"
_CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
_BROKERS_DEFAULT: Final = -1
_SHARED: Final = (
    "bootstrap_servers",
    "client_id",
    "request_timeout_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "socket_connection_setup_timeout_ms",
    "socket_connection_setup_timeout_max_ms",
    *SECURITY_OPTIONS,
)
"""Options of producers, readers and admins alike."""
_FIRST_LOOK: Final = 16
_TIMEOUT_MS: Final = 60_000


class Decision(NamedTuple):
    """A decision to make a batch of a query visible, and the transactions that contain its rows."""

    query: str
    batch: int
    transactions: tuple[PreparedTransaction, ...]

    def to_bytes(self) -> bytes:
        """The value of the decision's record."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


def parse_decision(value: bytes | None, where: str) -> Decision:
    """The inverse of `to_bytes`. Raises BatchError."""
    try:
        found = json.loads(value or b"")
        transactions = tuple(
            PreparedTransaction(str(one[0]), int(one[1]), int(one[2])) for one in found["transactions"]
        )
        return Decision(str(found["query"]), int(found["batch"]), transactions)
    except (ValueError, LookupError, TypeError) as error:
        raise BatchError(f"{where} is not a ledger of this sink: it contains {value!r}") from error


def shared_options(client: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a producer's options that all clients have."""
    return {"client_id": "ottla-spark"} | {name: client[name] for name in _SHARED if name in client}


class CommitLedger:
    """An open ledger; an asynchronous context manager."""

    def __init__(self, client: Mapping[str, Any], prefix: str, admin: Admin) -> None:
        """client: options of a producer."""
        self._shared = shared_options(client)
        self._admin = admin
        self._partition = TopicPartition(f"{prefix}-commits", 0)
        self._producer = Producer(**self._shared, transactional_id=self._partition.topic)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the ledger. Raises the cluster's errors."""
        await self._stack.enter_async_context(self._producer)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def last(self) -> Decision | None:
        """The last decision; None if the ledger is new. Raises BatchError if the topic is not a ledger."""
        start, end = await self._bounds()
        look = _FIRST_LOOK
        async with Reader(**self._shared, isolation_level="read_committed", auto_offset_reset="none") as reader:
            while end > start:
                begin = max(start, end - look)
                found = await self._last_between(reader, begin, end)
                if found is not None or begin == start:
                    return found
                look *= _FIRST_LOOK
        return None

    async def write(self, decision: Decision) -> None:
        """Write a decision. Raises ProducerFencedError if another driver has opened the ledger; after any other error
        it is unknown whether the decision is written.
        """
        topic, number = self._partition
        async with self._producer.transaction():
            await self._producer.send(topic, decision.to_bytes(), key=KEY, partition=number)

    async def _bounds(self) -> tuple[int, int]:
        try:
            found = [await self._admin.list_offsets({self._partition: which}) for which in (EARLIEST, LATEST)]
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            await self._create()
            return 0, 0
        start, end = (one[self._partition].offset for one in found)
        return start, end

    async def _create(self) -> None:
        try:
            await self._admin.create_topic(
                self._partition.topic, partitions=1, replication_factor=_BROKERS_DEFAULT, configs=_CONFIGS
            )
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def _last_between(self, reader: Reader, begin: int, end: int) -> Decision | None:
        partition = self._partition
        reader.assign({partition: begin})
        last = None
        while reader.position(partition) < end:
            batches = await reader.fetch_batches(timeout_ms=_TIMEOUT_MS)
            if batches is None:
                position = reader.position(partition)
                raise BatchError(f"{partition} cannot be read: {position} of {end} offsets in {_TIMEOUT_MS} ms")
            for record in batches.records():
                last = parse_decision(record.value, f"{partition}@{record.offset}")
        return last
