"""The part of a leader's append that reads records, or rebuilds the batch.

Most topics do not need it. It is for compacted topics (every record needs a key), limits on timestamps, LogAppendTime,
a topic's own compression type, full validation, and the message sets of clients older than Kafka 0.11.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn

from protocol import conversion
from protocol.compression import CompressionType
from protocol.errors import CorruptRecordError, DecompressedTooLargeError, InvalidRecordError
from protocol.message_set import MESSAGE_ATTRIBUTES_OFFSET
from protocol.record import Record
from protocol.record_batch import (
    BATCH_HEADER_SIZE,
    COMPRESSION_MASK,
    DECOMPRESSION_LIMIT,
    LOG_APPEND_TIME_FLAG,
    MAGIC_OFFSET,
    MAGIC_V2,
    RecordBatch,
    TimestampType,
    set_max_timestamp_log_append,
)
from protocol.record_batch_builder import RecordBatchBuilder
from storage.errors import InvalidTimestampError, RecordTooLargeError, RecordValidationError
from storage.log.config import LONG_MAX, LogConfig

_ERRORS_NAMED = 3

MAX_BYTES_AT_ONCE = 1 << 20
"""The largest decompressed size of the records that are validated on the event loop's thread."""
_LIKELY_RATIO = 16
"""A compressed batch larger than the limit divided by this is not decompressed on trial."""
MESSAGE_SET_BYTES_AT_ONCE = 1 << 18
"""The same for a message set, because its conversion takes four times as long (90 ms for 1 MiB of small messages)."""
MAX_RECORD_ERRORS = 10_000
"""Records that an error names. A batch of a few kilobytes can contain millions of records that are all invalid."""


def refuse(records: memoryview, max_message_bytes: int, *, client: bool) -> NoReturn:
    """Raise the error of a batch whose header is invalid, checking in Kafka's order.

    Raises InvalidRecordError, RecordTooLargeError, CorruptRecordError.
    """
    batch = RecordBatch(records)
    if client and batch.base_offset != 0:
        raise InvalidRecordError(f"the base offset of a produced batch must be 0, it is {batch.base_offset}")
    if len(records) > max_message_bytes:
        raise RecordTooLargeError(len(records), max_message_bytes)
    batch.check_crc()
    count, delta = batch.record_count, batch.last_offset_delta
    if delta + 1 != count or count <= 0:
        raise InvalidRecordError(f"record count {count} does not fit last offset delta {delta}")
    if batch.is_control:
        raise InvalidRecordError("clients must not write control records")
    raise InvalidRecordError(f"sequence number {batch.base_sequence} with producer id {batch.producer_id}")


class ValidatedBatch(NamedTuple):
    """The batch to append: the given buffer, patched, or a new one. `log_append_time` is -1 for CreateTime."""

    records: memoryview
    max_timestamp: int
    log_append_time: int


class BatchValidation:
    """The validation of a large batch, or message set, of a client. Only `run` may be called in another thread."""

    __slots__ = ("_now_ms", "_rules", "records", "validated")

    def __init__(self, rules: BatchRules, records: memoryview, now_ms: int) -> None:
        self._rules = rules
        self.records = records
        """The batch to append; a message set before `run`."""
        self._now_ms = now_ms
        self.validated: ValidatedBatch | None = None
        """The outcome of `run`."""

    def run(self) -> None:
        """Convert a message set to a batch; validate the batch. Raises what `up_convert` and `validate` raise."""
        if self.records[MAGIC_OFFSET] != MAGIC_V2:
            self.records = up_convert(self.records)
        self.validated = self._rules.validate(self.records, self._now_ms, client=True)


class LargeBatchError(Exception):
    """The validation takes long. Run it in another thread, then append it instead of the records."""

    def __init__(self, validation: BatchValidation) -> None:
        super().__init__()
        self.validation = validation


class BatchRules:
    """The rules that a topic's settings make for a leader's batches."""

    __slots__ = ("after_max_ms", "before_max_ms", "codec", "compacted", "full", "level", "log_append_time")

    def __init__(self, config: LogConfig, *, full: bool) -> None:
        self.compacted = config.compacts
        self.log_append_time = config.message_timestamp_type == "LogAppendTime"
        self.before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        self.full = full
        # None: keep the producer's codec.
        self.codec: CompressionType | None = None
        if config.compression_type != "producer":
            self.codec = CompressionType.from_config_name(config.compression_type)
        self.level = {
            CompressionType.GZIP: config.compression_gzip_level,
            CompressionType.LZ4: config.compression_lz4_level,
            CompressionType.ZSTD: config.compression_zstd_level,
        }.get(self.codec or CompressionType.NONE)

    @property
    def header_is_enough(self) -> bool:
        """Whether no rule needs the records of a batch, whatever its header says."""
        return (
            not self.compacted
            and not self.log_append_time
            and not self.full
            and self.codec is None
            and self.before_max_ms == LONG_MAX
            and self.after_max_ms == LONG_MAX
        )

    def up_convert_at_once(self, records: memoryview, now_ms: int) -> memoryview:
        """Convert a client's message set to a batch, unless it is larger than MESSAGE_SET_BYTES_AT_ONCE.

        Raises what `up_convert` raises, and LargeBatchError.
        """
        size, limit = len(records), MESSAGE_SET_BYTES_AT_ONCE
        try:
            if size <= limit // _LIKELY_RATIO or (
                size <= limit and not records[MESSAGE_ATTRIBUTES_OFFSET] & COMPRESSION_MASK
            ):
                return up_convert(records, limit)
        except DecompressedTooLargeError:
            pass
        raise LargeBatchError(BatchValidation(self, records, now_ms))

    def validate_at_once(self, records: memoryview, now_ms: int) -> ValidatedBatch:
        """Validate a client's batch, unless this means to read more than MAX_BYTES_AT_ONCE.

        Raises what `validate` raises, and LargeBatchError.
        """
        try:
            return self.validate(records, now_ms, client=True, at_once=True)
        except DecompressedTooLargeError:
            raise LargeBatchError(BatchValidation(self, records, now_ms)) from None

    def validate(self, records: memoryview, now_ms: int, *, client: bool, at_once: bool = False) -> ValidatedBatch:
        """Check the one batch in `records`, and convert it as the topic's settings say.

        at_once: read at most MAX_BYTES_AT_ONCE. Raises InvalidTimestampError, RecordValidationError,
        InvalidRecordError, CorruptRecordError (DecompressedTooLargeError for more records than may be read).
        """
        batch = RecordBatch(records)
        if batch.attributes & LOG_APPEND_TIME_FLAG:
            raise InvalidTimestampError("a producer must not set the timestamp type to LogAppendTime")
        limited = not self.log_append_time and (self.before_max_ms != LONG_MAX or self.after_max_ms != LONG_MAX)
        codec = None if batch.is_control or batch.compression is self.codec else self.codec
        content: Iterable[Record] = ()
        if (
            codec is not None
            or self.full
            or (self.compacted and client)
            or (limited and self._must_look(batch, now_ms))
        ):
            content = self._checked(self._read(batch, at_once=at_once), batch, now_ms, limited=limited)
        if codec is not None:
            return self._rewrite(batch, codec, content, now_ms)
        deque(content, maxlen=0)  # one record at a time: as objects, small records need 15 times their bytes
        if self.log_append_time:
            set_max_timestamp_log_append(records, 0, now_ms)
            return ValidatedBatch(records, now_ms, now_ms)
        return ValidatedBatch(records, batch.max_timestamp, -1)

    def _must_look(self, batch: RecordBatch, now_ms: int) -> bool:
        # The header has the largest timestamp only; the smallest one takes a look at every record.
        return self.before_max_ms != LONG_MAX or batch.max_timestamp > now_ms + self.after_max_ms

    @staticmethod
    def _read(batch: RecordBatch, *, at_once: bool) -> Iterator[Record]:
        limit = MAX_BYTES_AT_ONCE if at_once else DECOMPRESSION_LIMIT
        if at_once and len(batch.buffer) > (limit // _LIKELY_RATIO if batch.is_compressed else limit):
            raise DecompressedTooLargeError(0, f"{len(batch.buffer)} bytes are too many to be read at once")
        try:
            yield from batch.records(limit)
        except InvalidRecordError as error:
            raise CorruptRecordError(0, str(error)) from error

    def _checked(
        self, content: Iterator[Record], batch: RecordBatch, now_ms: int, *, limited: bool
    ) -> Iterator[Record]:
        """Yield the records. Raises the error of the invalid ones after the last record."""
        errors: list[tuple[int, str]] = []
        count = 0
        bad_timestamp = ""
        for index, record in enumerate(content):
            reason = ""
            if self.compacted and record.key is None:
                reason = "a record of a compacted topic must have a key"
            elif (
                limited
                and record.timestamp != -1
                and not -self.after_max_ms <= now_ms - record.timestamp <= self.before_max_ms
            ):
                low, high = now_ms - self.before_max_ms, now_ms + self.after_max_ms
                reason = f"timestamp {record.timestamp} is outside of [{low}, {high}]"
                bad_timestamp = bad_timestamp or reason
            elif self.full and record.offset != batch.base_offset + index:
                raise RecordValidationError(f"record {index} of the batch has the offset {record.offset}")
            if reason:
                count += 1
                if count <= MAX_RECORD_ERRORS:
                    errors.append((index, reason))
            yield record
        if bad_timestamp:
            raise InvalidTimestampError(
                "one or more records were rejected for their timestamp: " + bad_timestamp, tuple(errors)
            )
        if count:
            named = "; ".join(f"record {index}: {reason}" for index, reason in errors[:_ERRORS_NAMED])
            raise RecordValidationError(f"{count} records were rejected: {named}", tuple(errors))

    def _rewrite(
        self, batch: RecordBatch, codec: CompressionType, content: Iterable[Record], now_ms: int
    ) -> ValidatedBatch:
        """Rebuild the batch with the topic's codec."""
        log_append_time = now_ms if self.log_append_time else None
        builder = RecordBatchBuilder(
            0,
            codec,
            TimestampType.LOG_APPEND_TIME if self.log_append_time else TimestampType.CREATE_TIME,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.is_transactional,
            level=self.level,
            log_append_time=log_append_time,
        )
        for record in content:
            builder.append(record.timestamp, record.key, record.value, record.headers)
        built = builder.build()
        max_timestamp = RecordBatch(memoryview(built)).max_timestamp
        return ValidatedBatch(memoryview(built), max_timestamp, now_ms if self.log_append_time else -1)


def up_convert(records: memoryview, limit: int | None = DECOMPRESSION_LIMIT) -> memoryview:
    """Convert an old client's message set to a batch of magic 2. limit: the largest decompressed size of a wrapper.

    Raises InvalidRecordError, CorruptRecordError (also for other bytes, if they are no batch; DecompressedTooLargeError
    for a larger wrapper), UnsupportedCompressionError.
    """
    if len(records) <= MAGIC_OFFSET:
        raise InvalidRecordError(f"{len(records)} bytes contain no record batch")
    magic = records[MAGIC_OFFSET]
    if magic > 1:
        if magic == 2:
            raise CorruptRecordError(0, f"{len(records)} bytes are too few for a batch header")
        raise InvalidRecordError(f"unknown magic {magic}")
    converted = conversion.up_convert(records, limit=limit)
    if len(converted) < BATCH_HEADER_SIZE:
        raise InvalidRecordError("the message set is empty")
    return memoryview(converted)
