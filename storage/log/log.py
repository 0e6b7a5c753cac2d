"""The log of one partition: its segments, offsets, producers and leader epochs.

    log start offset ≤ last stable offset ≤ high watermark ≤ log end offset

Readers see records from the log start offset on; the high watermark is what enough replicas have; the log end
offset is that of the next append. Everything here is synchronous and belongs to one thread: appends are one
`pwrite` into the page cache. Only `Flush.run` may leave that thread. `segments` is replaced, never changed,
so that a reader keeps what it saw.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.buffer import Buffer
from storage.errors import (
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
)
from storage.file_system import FileSystem
from storage.log import change as log_change
from storage.log import flush as log_flush
from storage.log import follower as log_follower
from storage.log import leader as log_leader
from storage.log import loader as log_loader
from storage.log import lookup as log_lookup
from storage.log import read as log_read
from storage.log.append import AppendOrigin, LogAppendInfo, LogReadInfo
from storage.log.batch_validation import BatchRules
from storage.log.config import LogConfig
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.segment import MAX_RELATIVE_OFFSET, LogSegment
from storage.producers.state import DEFAULT_PRODUCER_ID_EXPIRATION_MS, ProducerState
from storage.producers.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from storage.compaction.run import CompactionRun

_MAX_HINTS = 64


class Log:
    """One partition on disk. Made by `Log.open`.

    Plain attributes, to be read by anybody: `topic`, `partition`, `topic_id` (16 bytes or None), `directory`,
    `log_start_offset`, `log_end_offset`, `high_watermark`, `recovery_point` (everything below is synced),
    `segments` (ascending, at least one, the last one is written to), `producers`, `leader_epochs`.
    """

    def __init__(
        self,
        directory: Path,
        topic: str,
        partition: int,
        config: LogConfig,
        fs: FileSystem,
        now_ms: Callable[[], int],
    ) -> None:
        """An empty shell that `Log.open` fills."""
        self.topic = topic
        self.partition = partition
        self.directory = directory
        self.topic_id: bytes | None = None
        self.fs = fs
        self.now_ms = now_ms
        self.random = random.Random(0)
        self.full_validation = False
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.truncations = 0  # how many there were: what was being synced meanwhile may be gone
        self.last_flush_ms = now_ms()
        self.producers = ProducerState(fs, str(directory))
        self.leader_epochs = LeaderEpochCache(fs, str(directory))
        self.segments: tuple[LogSegment, ...] = ()
        self.base_offsets: tuple[int, ...] = ()
        self._inactive_bytes = 0
        # Positions that were translated lately, by offset: what tail readers ask for next.
        self.hints: dict[int, tuple[LogSegment, int]] = {}
        self.closed = False
        self.is_claimed = False
        """Whether a partition of this broker uses it: what nobody has claimed is neither compacted nor thinned out."""
        self.compaction: CompactionRun | None = None  # the one that is under way
        self.is_being_moved = False
        """Whether a copy of it is being made in another log directory: it is not compacted meanwhile."""
        self.successor: Log | None = None
        """The copy that has taken its place: what was written here is there, too."""
        self.directory_unsynced = False  # the directory itself, or partition.metadata in it, is new
        # How often files in the directory were made, renamed or removed, and how much of that is synced.
        self.name_changes = 0
        self.synced_name_changes = 0
        # Set by the log manager: files to remove after a delay in ms; a segment was rolled.
        self.schedule_removal: Callable[[list[str], int], None] | None = None
        self.on_roll: Callable[[Log], None] | None = None
        self.on_truncate: Callable[[Log], None] | None = None  # after the log has lost its end
        self.config = config

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        fs: FileSystem,
        now_ms: Callable[[], int],
        recovery_point: int | None = None,
        log_start_offset: int = 0,
        clean_shutdown: bool = False,
        topic_id: bytes | None = None,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
        full_validation: bool = False,
        rng: random.Random | None = None,
        reading: Callable[[int], None] = lambda size: None,
    ) -> Log:
        """Load the log in `directory` (`<topic>-<partition>`), or begin one.

        recovery_point, log_start_offset: what the checkpoints say (None: nothing is known of what was synced).
        clean_shutdown: no segment needs recovery.
        topic_id: given for a new log, or to be held against `partition.metadata`. full_validation: look into
        every batch as Kafka does. reading: called with the size of what recovery is about to read; what it raises ends
        that. Raises InconsistentTopicIdError, InvalidLogDirectoryNameError, CorruptFileError, LogDirIOError.
        """
        topic, partition = log_loader.parse_directory_name(directory.name)
        log = cls(directory, topic, partition, config, fs, now_ms)
        log.random = rng or log.random
        log.full_validation = full_validation
        log.config = config
        log.producers.expiration_ms = producer_id_expiration_ms
        log_loader.load(
            log, recovery_point, log_start_offset, clean_shutdown=clean_shutdown, topic_id=topic_id, reading=reading
        )
        return log

    @property
    def config(self) -> LogConfig:
        """The topic's settings; set it to change them."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.rules = BatchRules(config, full=self.full_validation)
        self.header_is_enough = self.rules.header_is_enough
        self.max_message_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.max_segment_ms
        self.flush_messages = config.flush_messages

    # -- offsets -----------------------------------------------------------------------------------

    @property
    def names_unsynced(self) -> bool:
        """Whether a power cut could undo the making, renaming or removal of files in the directory."""
        return self.name_changes != self.synced_name_changes

    @property
    def active_segment(self) -> LogSegment:
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' records."""
        return self._inactive_bytes + self.segments[-1].size

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided: readers of committed data stop here."""
        first = self.producers.first_unstable_offset
        if first is None or first >= self.high_watermark:
            return self.high_watermark
        return first if first > self.log_start_offset else self.log_start_offset

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept between log start and log end offset; returns what it is now."""
        high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.high_watermark = high_watermark
        self.producers.high_watermark_updated(high_watermark)
        return high_watermark

    def commit_all(self) -> None:
        """Everything that was appended is committed: the leader is the only replica."""
        self.high_watermark = end = self.log_end_offset
        if self.producers.unreplicated:
            self.producers.high_watermark_updated(end)

    def increment_log_start_offset(self, offset: int) -> bool:
        """Give up the records below `offset` (segments go later). True if that moved the log start offset.

        Raises OffsetOutOfRangeError above the high watermark.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.high_watermark)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producers.log_start_offset_incremented(offset)
        return True

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above `epoch`; (-1, -1) if none is known."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # -- append ------------------------------------------------------------------------------------

    def append_as_leader(
        self, records: Buffer, leader_epoch: int, *, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> LogAppendInfo:
        """Append one batch; its offsets are given here. `records` is patched in place if it is writable.

        Raises RecordTooLargeError, RecordBatchTooLargeError, CorruptRecordError, InvalidRecordError (and
        RecordValidationError), InvalidTimestampError, OutOfOrderSequenceError, InvalidProducerEpochError,
        InvalidTxnStateError, TransactionCoordinatorFencedError, UnsupportedCompressionError, LogDirIOError;
        the log is then what it was.
        """
        return log_leader.append(self, records, leader_epoch, origin)

    def append_as_follower(self, records: Buffer) -> LogAppendInfo:
        """Append batches as the leader wrote them, offsets and all; one cut off at the end is left out.

        Raises CorruptRecordError, OffsetsOutOfOrderError, UnexpectedAppendOffsetError,
        RecordBatchTooLargeError, LogDirIOError; the log is then what it was.
        """
        return log_follower.append(self, memoryview(records))

    def segment_for(self, size: int, first_offset: int, last_offset: int, timestamp: int) -> LogSegment:
        """The segment that an append of `size` bytes goes to; a new one if the active one is full or old."""
        if size > self._segment_bytes:
            raise RecordBatchTooLargeError(size, self._segment_bytes)
        segment = self.segments[-1]
        first = segment.rolling_timestamp
        if (
            first is not None
            and first >= 0
            and timestamp - first <= self._segment_ms - segment.roll_jitter_ms
            and segment.size + size <= self._segment_bytes
            and last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET
            and segment.has_index_room
        ):
            return segment
        try:
            if segment.should_roll(size, last_offset, timestamp, self._segment_bytes, self._segment_ms, self.now_ms()):
                return log_change.roll(self, first_offset)
        except OSError as error:
            raise self.fs.failed(self.directory, error) from error
        return segment

    def note_aborted(self, segment: LogSegment, transaction: AbortedTransaction) -> None:
        """Add to a segment's transaction index: the first entry makes the file."""
        if not segment.txn_index.entries:
            self.name_changes += 1
        segment.txn_index.append(transaction)

    # -- read --------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        max_offset: int,
        min_one_message: bool = True,
        include_aborted: bool = False,
    ) -> LogReadInfo:
        """Records from `offset` on, of one segment: nothing of them is read here.

        max_bytes: the range is cut there, within a batch if need be. max_offset: records from there on are
        not to be seen (high watermark, last stable offset or log end offset). min_one_message: the first
        batch is given whole, whatever max_bytes is. Raises OffsetOutOfRangeError, LogDirIOError.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        try:
            return log_read.read(self, offset, max_bytes, max_offset, min_one_message, include_aborted)
        except OSError as error:
            raise self.fs.failed(self.directory, error) from error

    def remember(self, offset: int, segment: LogSegment, position: int) -> None:
        """Keep a translated position: the end of what was read is where tail readers go on."""
        hints = self.hints
        if len(hints) >= _MAX_HINTS:
            hints.clear()
        hints[offset] = (segment, position)

    def fetch_offset_by_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record whose timestamp is at least `timestamp`."""
        try:
            return log_lookup.offset_by_timestamp(self, timestamp)
        except OSError as error:
            raise self.fs.failed(self.directory, error) from error

    def fetch_offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record with the largest timestamp of the log."""
        try:
            return log_lookup.offset_of_max_timestamp(self)
        except OSError as error:
            raise self.fs.failed(self.directory, error) from error

    # -- change ------------------------------------------------------------------------------------

    def set_segments(self, segments: tuple[LogSegment, ...]) -> None:
        """Replace the segments (at least one, ascending); readers keep what they saw."""
        assert segments
        self.segments = segments
        self.base_offsets = tuple(segment.base_offset for segment in segments)
        self._inactive_bytes = sum(segment.size for segment in segments[:-1])
        self.hints.clear()

    def roll(self) -> LogSegment:
        """Begin a new segment at the log end offset, unless the active one is empty. Raises LogDirIOError."""
        return log_change.roll(self, self.log_end_offset)

    def truncate_to(self, offset: int) -> bool:
        """Remove the records from `offset` on. False if there are none. Raises LogDirIOError."""
        return log_change.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove every record; the next one gets `offset`. Raises LogDirIOError."""
        log_change.truncate_fully_and_start_at(self, offset)

    def delete_old_segments(self) -> int:
        """Remove the segments that retention by start offset, size and time gives up; how many went."""
        return log_change.delete_old_segments(self)

    def take_producer_snapshot(self) -> None:
        """Write what is known of the producers to `<log end offset>.snapshot`."""
        self.producers.take_snapshot()

    # -- flush and close ---------------------------------------------------------------------------

    def prepare_flush(self, offset: int | None = None) -> log_flush.Flush | None:
        """What has to be synced for everything below `offset` (default: log end offset) to be durable; None:
        nothing.

        Run it anywhere (`Flush.run` blocks), then call `Flush.done` in the log's thread, or `Flush.failed`. Raises
        LogDirIOError.
        """
        return log_flush.prepare(self, self.log_end_offset if offset is None else offset)

    def flush(self, offset: int | None = None) -> None:
        """Sync everything below `offset`, blocking. Raises LogDirIOError."""
        flush = self.prepare_flush(offset)
        if flush is not None:
            try:
                flush.run()
            except BaseException:
                flush.failed()
                raise
            flush.done()

    def seal(self) -> None:
        """Write what a clean stop leaves: producer snapshot, last time index entry, indexes cut to size."""
        if not self.closed:
            self.producers.take_snapshot()
            for segment in self.segments:
                segment.seal()
            self.segments[-1].trim()

    def abort_compaction(self, reason: str) -> None:
        """Give up a compaction that is under way: before anything but an append happens to the log."""
        if self.compaction is not None:
            self.compaction.abort(reason)

    def release(self) -> None:
        """Drop the descriptors; appends are refused from now on."""
        self.abort_compaction("the log is closed")
        self.closed = True
        self.hints.clear()
        for segment in self.segments:
            segment.release()

    def close(self) -> None:
        """Clean stop: seal, sync, release. Raises LogDirIOError."""
        if not self.closed:
            self.seal()
            self.flush()
            self.release()

    def move_to(self, directory: Path) -> None:
        """Rename the directory. Raises LogDirIOError."""
        log_change.move_to(self, directory)

    def __repr__(self) -> str:
        return (
            f"Log({self.topic}-{self.partition}, offsets={self.log_start_offset}..{self.log_end_offset}, "
            f"high_watermark={self.high_watermark}, segments={len(self.segments)}, "
            f"directory={str(self.directory)!r})"
        )
