"""The producer: sends records and returns their offsets.

    async with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        written = await producer.send("orders", b"a value", key=b"a key")
        print(written.offset)

Delivery. With `acks="all"` (the default) the producer is idempotent: a record is written once and in order, even if it
is sent again after a lost connection or a leader change. With `acks=1` or 0 a record may be lost, or written twice
after a retry. The order within a partition holds in all cases. With a `transactional_id`, records of several
partitions and a group's offsets are committed together or not at all:

    async with producer.transaction():
        producer.send_nowait("orders", b"one")
        await producer.send_offsets({TopicPartition("requests", 0): 7}, "group")
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Self, Unpack

from client.errors import BufferFullError, ClosedError, KafkaError
from client.options import refuse, refuse_unknown, shows
from client.producer.accumulator import (
    RECORD_OVERHEAD,
    Batch,
    PendingRecord,
    RecordMetadata,
    size_of_headers,
    too_large,
)
from client.producer.buffer_memory import BufferMemory
from client.producer.column_batch import split_columns
from client.producer.options import ProducerKeywords, ProducerOptions
from client.producer.partitioner import make_partitioner
from client.producer.placement import Placement
from client.producer.sender import Sender
from client.producer.transaction_manager import TransactionManager
from client.producer.transactional_producer import TransactionalProducer
from client.wire.cluster import Cluster
from protocol.record import INT64_MAX, Header

Headers = Iterable[tuple[str, bytes | None]]


class Producer(TransactionalProducer):
    """An asyncio producer; an asynchronous context manager. Use all methods in one event loop.

    Options (names as in aiokafka and kafka-python; times in ms, sizes in bytes):

    - `security_protocol`, `ssl_…`, `sasl_…`: TLS and the login; `client.wire.security_options` describes them.
    - `acks`: "all", 1 or 0. `enable_idempotence`: on by default with acks="all", which it requires.
    - `compression_type`: gzip, snappy, lz4, zstd or None; `compression_level` as the codec takes it.
    - `batch_size`: a batch is sent when it holds this many bytes, or `linger_ms` after its first record.
    - `buffer_memory`: for records that wait for a broker; if it is full, `send` waits, at most `max_block_ms`, and
      `send_nowait` raises BufferFullError.
    - `max_request_size`: bytes of one request, and so of the largest record.
    - `max_in_flight_requests_per_connection`: unanswered requests to one broker.
    - `request_timeout_ms`: for one request; `delivery_timeout_ms`: for a record with all its retries.
    - `partitioner`: "default" (murmur2 as the Java client; sticky without key), "sticky" (with or without key),
      "round_robin", a `Partitioner`, or a function of (key, partitions, available partitions).
    - `key_serializer`, `value_serializer`: functions to bytes.
    - `transactional_id`: every record belongs to a transaction, which is aborted after `transaction_timeout_ms`;
      an older producer with the same id is fenced.
    - `allow_auto_create_topics`: let the broker create unknown topics, if its auto.create.topics.enable is on.
    - `connections_max_idle_ms`: a connection without requests is closed after this time, and opened when needed.

    Raises InvalidOptionError for a value that breaks a rule.
    """

    @shows(ProducerOptions)
    def __init__(self, **keywords: Unpack[ProducerKeywords]) -> None:
        refuse_unknown(keywords, Producer)
        options = ProducerOptions(**keywords)
        self._cluster = Cluster(options, on_error=self._on_background_error)
        self._transactions: TransactionManager | None = None
        if options.transactional_id is not None:
            self._transactions = TransactionManager(
                self._cluster,
                options.transactional_id,
                options,
                on_progress=self._wake,
                on_failure=self._abandon,
            )
        self._sender = Sender(self._cluster, options, self._transactions, on_done=self._batch_done)
        self._placement = Placement(
            self._cluster,
            self._sender,
            make_partitioner(options.partitioner, self._cluster.random),
            options,
            on_failed=self._fail_record,
        )
        self._memory = BufferMemory(options.buffer_memory, options.max_block_s)
        # Each record needs these.
        self._key_serializer = options.key_serializer
        self._value_serializer = options.value_serializer
        self._now_ms = options.now_ms
        self._max_request_size = options.max_request_size
        self._options = options
        self._closing = False

    # ---- start and close

    async def start(self) -> None:
        """Connect to the cluster; with a `transactional_id`, fence older producers. Not needed inside `async with`.

        Raises NoBrokersAvailableError, or the transaction coordinator's error.
        """
        await self._cluster.start()
        if self._transactions is not None:
            await self._transactions.initialise()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self._cluster.close()
            raise
        return self

    async def __aexit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        await self.close(timeout_s=0 if error_type is not None else None)

    async def close(self, timeout_s: float | None = None) -> None:
        """Send the waiting records, for at most `timeout_s` (None: no limit), then close. An open transaction is
        aborted. Records that are not acknowledged by then fail with ClosedError.
        """
        if self._closing:
            return
        self._closing = True
        try:
            async with asyncio.timeout(timeout_s):
                if self._transactions is not None and self._transactions.is_open:
                    with contextlib.suppress(KafkaError):
                        await self._abort(self._transactions)
                await self.flush()
        except TimeoutError:
            pass
        finally:
            error = ClosedError("the producer was closed before this record was acknowledged")
            self._sender.close(error)
            self._placement.abandon(error)
            await self._cluster.close()

    async def flush(self) -> None:
        """Return when every record sent so far is acknowledged or has failed."""
        sender = self._sender
        sender.waiting_flushes += 1
        try:
            while True:
                unplaced = [record[4] for record in self._placement.waiting()]
                loop = asyncio.get_running_loop()
                waiting: list[asyncio.Future[Any]] = list(unplaced)
                for batch in sender.pending_batches():
                    if batch.completion is None:
                        batch.completion = loop.create_future()
                    waiting.append(batch.completion)
                if not waiting:
                    return
                sender.wake_all()
                await asyncio.wait(waiting)
                if not unplaced:
                    return
        finally:
            sender.waiting_flushes -= 1

    # ---- sending

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Send a record, wait until it is acknowledged, and return where it was written.

        A record for a partition that is not known waits for it, at most `max_block_ms`: partitions may be added.

        Raises the broker's error, UnknownTopicOrPartitionError, DeliveryTimeoutError, ClosedError, RecordTooLargeError
        for a record above `max_request_size`, or IllegalStateError outside a transaction. To have many records in
        flight, use `send_nowait`, or gather several `send`. If the call is cancelled, the record may still be written,
        in order.
        """
        record = self._record(topic, value, key, timestamp_ms, headers)
        await self._take_memory(record[5])
        try:
            self._check_open()
        except KafkaError:
            self._memory.release(record[5])
            raise
        self._placement.add(topic, partition, record)
        return await record[4]

    def send_nowait(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> "asyncio.Future[RecordMetadata]":
        """Queue a record and return the future of where it was written.

        Raises BufferFullError if `buffer_memory` is full (then await `buffer_has_room`), ClosedError,
        RecordTooLargeError.
        """
        record = self._record(topic, value, key, timestamp_ms, headers)
        self._memory.take_nowait(record[5])
        self._placement.add(topic, partition, record)
        return record[4]

    async def send_columns(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        partition: int | None = None,
    ) -> "list[asyncio.Future[None]]":
        """Queue many records of one partition, several times faster than `send_nowait` for each; wait for room in
        `buffer_memory`. Return a future for each batch, which is done when the batch is acknowledged.

        The columns are of equal length. `keys` require `partition`; without it, each batch goes to the partition that
        the partitioner chooses for records without a key. Serializers are not used. Raises ClosedError,
        RecordTooLargeError, UnknownTopicOrPartitionError, or BufferFullError after `max_block_ms`; some of the records
        may be queued then.
        """
        if keys is not None and partition is None:
            raise refuse("partition", partition, "must be set if records have keys")
        futures = []
        for columns in split_columns(
            self._now_ms(), keys, values, headers, self._options.batch_size, self._max_request_size
        ):
            await self._take_memory(columns.size)
            try:
                self._check_open()
                batch = await self._placement.add_columns(topic, partition, columns)
            except BaseException:
                self._memory.release(columns.size)
                raise
            futures.append(batch.written)
        return futures

    async def buffer_has_room(self) -> None:
        """Wait until a quarter of `buffer_memory` is free, and at least one turn of the event loop.

        A larger record is accepted only when the buffer is empty: repeat the call until `send_nowait` accepts it.
        Raises BufferFullError after `max_block_ms`.
        """
        try:
            await self._memory.has_room()
        except BufferFullError as error:
            raise self._explained(error) from None

    @property
    def retried_error(self) -> KafkaError | None:
        """The last error of the oldest record that failed and is to be sent again; None if there is none.

        With it, a program can say why records are not acknowledged yet.
        """
        return self._sender.retried_error()

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic. The broker creates an unknown topic if it is configured to. Raises the broker's
        error.
        """
        found = await self._cluster.topic(topic, timeout_s=self._options.max_block_s)
        return list(found.partitions)

    def _record(
        self,
        topic: str,
        value: Any,
        key: Any,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> PendingRecord:
        if self._closing or self._transactions is not None:
            self._check_open()
        size = RECORD_OVERHEAD
        if key is not None:
            if self._key_serializer is not None:
                key = self._key_serializer(key)
            if type(key) is not bytes:
                key = _as_bytes("key", key)
            size += len(key)
        if value is not None:
            if self._value_serializer is not None:
                value = self._value_serializer(value)
            if type(value) is not bytes:
                value = _as_bytes("value", value)
            size += len(value)
        checked: tuple[Header, ...] = ()
        if headers:
            checked = tuple(headers)
            size += size_of_headers(checked)
        if timestamp_ms is None:
            timestamp_ms = self._now_ms()
        elif not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms <= INT64_MAX:
            raise refuse("timestamp_ms", timestamp_ms, "must be a non-negative 64-bit integer")
        if size > self._max_request_size:
            raise too_large(size, self._max_request_size, topic)
        return timestamp_ms, key, value, checked, asyncio.get_running_loop().create_future(), size

    async def _take_memory(self, size: int) -> None:
        try:
            await self._memory.take(size)
        except BufferFullError as error:
            raise self._explained(error) from None

    def _explained(self, error: BufferFullError) -> BufferFullError:
        """Add why the records in the buffer are not acknowledged."""
        reason = self.retried_error
        return error if reason is None else BufferFullError(f"{error}: {reason}")

    def _check_open(self) -> None:
        if self._closing:
            raise ClosedError("the producer has been closed")
        if self._transactions is not None:
            self._transactions.status.check_open("send")

    # ---- callbacks of the parts

    def _wake(self) -> None:
        self._sender.wake_all()

    def _abandon(self, error: KafkaError) -> None:
        self._placement.abandon(error)
        self._sender.abandon(error)

    def _batch_done(self, batch: Batch) -> None:
        self._memory.release(batch.size)

    def _fail_record(self, record: PendingRecord, error: KafkaError) -> None:
        self._memory.release(record[5])
        if not record[4].done():
            record[4].set_exception(error)
        if self._transactions is not None:
            self._transactions.record_failed(error)

    def _on_background_error(self, error: BaseException) -> None:
        asyncio.get_running_loop().call_exception_handler(
            {"message": "a background task of the producer failed", "exception": error}
        )


def _as_bytes(name: str, part: Any) -> bytes:
    """Copy a key or value that is not of type bytes, as its content may change."""
    if not isinstance(part, (bytes, bytearray, memoryview)):
        raise TypeError(f"{name} must be bytes or None, not {type(part).__name__}: pass a {name}_serializer")
    return bytes(part)
