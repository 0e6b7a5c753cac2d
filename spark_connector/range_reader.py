"""Reads an offset range on an executor: fetches ahead in the client's event loop while Spark takes decoded records.

The whole range is delivered, or the task fails. Offsets without a record (compacted away, control records, aborted
transactions) are skipped. If the log begins after the start of the range, or ends before its end, data is lost, and
failOnDataLoss decides what happens.
"""

import asyncio
import warnings
from collections.abc import Iterator
from typing import Final

from client.consumer.fetched import FetchedBatches
from client.consumer.reader import Reader
from client.errors import KafkaError, LogTruncationError
from protocol.error_codes import ErrorCode
from spark_connector.errors import LOSS_ADVICE, DataLossError, NoProgressError
from spark_connector.event_loop import run
from spark_connector.range_planner import OffsetRange
from spark_connector.source_options import SourceOptions
from spark_connector.worker_readers import borrow, give_back

_LOOK_MS: Final = 1_000
"""After this time without records the reader looks for the reason."""
_TRUNCATION_PATIENCE_MS: Final = 5_000
"""How long a log that ends before the range may take to grow: a new leader's high watermark advances late."""


class RangeReader:
    """One pass over a range. `fetched()` returns the fetched batches, in order of offsets."""

    def __init__(self, wanted: OffsetRange, options: SourceOptions) -> None:
        self._wanted = wanted
        self._partition = wanted.topic_partition
        self._options = options
        self._position = wanted.start

    def fetched(self) -> Iterator[FetchedBatches]:
        """Raises DataLossError, NoProgressError, NoBrokersAvailableError and the broker's errors."""
        client = self._options.client
        reader = run(borrow(client))
        is_sound = False
        try:
            run(self._assign(reader))
            while self._position < self._wanted.end:
                batches = run(self._next(reader))
                if batches is None:
                    break
                self._position = batches.next_offset
                yield batches
            is_sound = True
        finally:
            run(give_back(reader, client, is_sound=is_sound))

    async def _assign(self, reader: Reader) -> None:
        try:
            await reader.partitions_for(self._partition.topic)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._lost("the topic is gone")
            self._position = self._wanted.end
            return
        self._read_on(reader)

    async def _next(self, reader: Reader) -> FetchedBatches | None:
        """The next batches; None if there are none and the task may end."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            left_ms = self._options.poll_timeout_ms - (loop.time() - began) * 1000
            try:
                batches = await reader.fetch_batches(timeout_ms=min(_LOOK_MS, max(left_ms, 0)))
            except KafkaError as error:
                is_cut_off = isinstance(error, LogTruncationError)
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE and not is_cut_off:
                    raise
                if not await self._go_on_from_what_is_there(reader, str(error) if is_cut_off else ""):
                    return None
                continue
            if batches is not None:
                return batches
            if await self._is_over(reader, loop.time() - began):
                return None

    async def _go_on_from_what_is_there(self, reader: Reader, why: str) -> bool:
        begins = (await reader.beginning_offsets([self._partition]))[self._partition]
        ends = (await reader.end_offsets([self._partition]))[self._partition]
        self._lost(why or f"the log holds offsets {begins} to {ends} now")
        position = max(begins, self._position)
        if position >= min(ends, self._wanted.end):
            return False
        self._position = position
        self._read_on(reader)
        return True

    def _read_on(self, reader: Reader) -> None:
        reader.assign({self._partition: self._position})
        reader.stop_at({self._partition: self._wanted.end})

    async def _is_over(self, reader: Reader, waited_s: float) -> bool:
        """After some time without records: raise the error, or return True if the range has ended by data loss."""
        error = reader.last_fetch_error()
        ends = reader.high_watermark(self._partition)
        patience_ms = min(_TRUNCATION_PATIENCE_MS, self._options.poll_timeout_ms / 2)
        if error is None and 0 <= ends <= self._position and waited_s * 1000 >= patience_ms:
            self._lost(f"the log ends at offset {ends} now")
            return True
        if waited_s * 1000 >= self._options.poll_timeout_ms:
            why = f"the last error is: {error}" if error is not None else "the broker answers without records"
            raise NoProgressError(
                f"{self._partition}: no records from offset {self._position} of {self._wanted} within "
                f"{self._options.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs); {why}"
            )
        return error is None and await self._topic_is_gone(reader)

    async def _topic_is_gone(self, reader: Reader) -> bool:
        """Whether the topic was deleted; its partition seems to have no leader."""
        try:
            await reader.partitions_for(self._partition.topic)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
            self._lost("the topic is gone")
            return True
        return False

    def _lost(self, what: str) -> None:
        """Raise DataLossError, or warn and continue."""
        text = (
            f"{self._partition}: offsets from {self._position} of {self._wanted} cannot be read: {what}. {LOSS_ADVICE}"
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(text)
        warnings.warn(text, stacklevel=2)
