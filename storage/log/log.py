"""The log of one partition: its segments, offsets, producers and leader epochs.

    log start offset ≤ last stable offset ≤ high watermark ≤ log end offset

`Log` is composed of parts, each with its own state. It does what concerns several of them: truncation, retention,
rename and close. Everything is synchronous and belongs to one thread: an append is one `pwrite` into the page cache.
Only `Flush.run` may leave that thread.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.buffer import Buffer
from storage.errors import LogDirIOError, OffsetOutOfRangeError
from storage.file_system import FileSystem
from storage.log import retention
from storage.log.append import AppendOrigin, LogAppendInfo, LogReadInfo
from storage.log.batch_validation import BatchValidation
from storage.log.config import LogConfig
from storage.log.files import LogFiles
from storage.log.flush import Durability, Flush
from storage.log.follower import FollowerAppends
from storage.log.leader import LeaderAppends
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.loader import LogLoader
from storage.log.lookup import TimestampLookup
from storage.log.offsets import LogOffsets
from storage.log.read import LogReader
from storage.log.replay import ProducerReplay, rebuild_producers
from storage.log.segment import LogSegment
from storage.log.segment_files import SegmentFiles
from storage.log.segments import LogSegments
from storage.producers.state import DEFAULT_PRODUCER_ID_EXPIRATION_MS, ProducerState

if TYPE_CHECKING:
    from storage.compaction.run import CompactionRun


class Log:
    """One partition on disk. `Log.open` makes it.

    Its parts: `files` (directory, topic id), `segments`, `offsets`, `producers`, `leader_epochs`, `durability`
    (recovery point).
    """

    def __init__(
        self,
        segments: LogSegments,
        offsets: LogOffsets,
        leader_epochs: LeaderEpochCache,
        recovery_point: int,
        *,
        full_validation: bool,
    ) -> None:
        self.files = files = segments.files.log_files
        self.topic, self.partition = files.topic, files.partition
        self.segments = segments
        self.offsets = offsets
        self.producers = segments.files.producers
        self.leader_epochs = leader_epochs
        self.durability = durability = Durability(segments, offsets, leader_epochs, recovery_point)
        self.now_ms = segments.files.now_ms
        self._reader = LogReader(segments, offsets)
        self._leader = LeaderAppends(segments, offsets, leader_epochs, durability, full_validation)
        self._follower = FollowerAppends(segments, offsets, leader_epochs, durability)
        self.is_claimed = False
        """Whether a partition of this broker uses the log. Other logs are neither compacted nor thinned out."""
        self.is_being_moved = False
        """Whether a copy is being made in another log directory. The log is not compacted meanwhile."""
        self.compaction: CompactionRun | None = None
        """The compaction that is under way."""
        self.successor: Log | None = None
        """The copy that has replaced this log; it has all records of this log."""
        self.on_truncate: Callable[[Log], None] = lambda log: None
        """Called after a truncation."""

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
        """Load the log in `directory` (`<topic>-<partition>`), or create it.

        recovery_point, log_start_offset: from the checkpoints (None: it is not known what was synced).
        clean_shutdown: no segment needs recovery.
        topic_id: of a new log; must agree with `partition.metadata` if that exists.
        full_validation: validate every record as Kafka does.
        reading: called with the size of what recovery is about to read; what it raises ends the recovery.

        Raises InconsistentTopicIdError, InvalidLogDirectoryNameError, CorruptFileError, LogDirIOError.
        """
        producers = ProducerState(fs, str(directory), producer_id_expiration_ms)
        leader_epochs = LeaderEpochCache(fs, str(directory))
        segment_files = SegmentFiles(LogFiles(fs, directory), producers, config, rng or random.Random(0), now_ms)
        segments, offsets = LogLoader(segment_files, leader_epochs, reading).load(
            recovery_point, log_start_offset, clean_shutdown=clean_shutdown, topic_id=topic_id
        )
        synced = offsets.end if clean_shutdown else min(recovery_point or 0, offsets.end)
        return cls(segments, offsets, leader_epochs, synced, full_validation=full_validation)

    @property
    def config(self) -> LogConfig:
        """The topic's settings; set it to change them."""
        return self.segments.files.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self.segments.configure(config)
        self.durability.flush_messages = config.flush_messages
        self._leader.configure(config)

    # -- what callers ask most often, from the parts -----------------------------------------------

    @property
    def directory(self) -> Path:
        return self.files.directory

    @property
    def topic_id(self) -> bytes | None:
        """16 bytes, or None if it is not known."""
        return self.files.topic_id

    @property
    def log_start_offset(self) -> int:
        return self.offsets.start

    @property
    def high_watermark(self) -> int:
        return self.offsets.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self.offsets.end

    @property
    def recovery_point(self) -> int:
        return self.durability.recovery_point

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' records."""
        return self.segments.size_bytes

    @property
    def closed(self) -> bool:
        return self.segments.closed

    # -- offsets -----------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided. Readers of committed data stop here."""
        offsets, first = self.offsets, self.producers.first_unstable_offset
        if first is None or first >= offsets.high_watermark:
            return offsets.high_watermark
        return first if first > offsets.start else offsets.start

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept between log start and log end offset; returns the new value."""
        offsets = self.offsets
        offsets.high_watermark = high_watermark = min(max(offset, offsets.start), offsets.end)
        self.producers.high_watermark_updated(high_watermark)
        return high_watermark

    def commit_all(self) -> None:
        """Set the high watermark to the log end offset: the leader is the only replica."""
        self.offsets.high_watermark = end = self.offsets.end
        if self.producers.unreplicated:
            self.producers.high_watermark_updated(end)

    def increment_log_start_offset(self, offset: int) -> bool:
        """Give up the records below `offset`; retention removes the segments. True if the log start offset moved.

        Raises OffsetOutOfRangeError if `offset` is above the high watermark.
        """
        offsets = self.offsets
        if offset > offsets.high_watermark:
            raise OffsetOutOfRangeError(offset, offsets.start, offsets.high_watermark)
        if offset <= offsets.start:
            return False
        offsets.start = offset
        self.durability.recovery_point = max(self.durability.recovery_point, offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producers.log_start_offset_incremented(offset)
        return True

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above `epoch`; (-1, -1) if none is known."""
        return self.leader_epochs.end_offset_for(epoch, self.offsets.end)

    # -- append ------------------------------------------------------------------------------------

    def append_as_leader(
        self, records: Buffer | BatchValidation, leader_epoch: int, *, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> LogAppendInfo:
        """Append one batch and assign its offsets. `records` is patched in place if it is writable.

        records: after a LargeBatchError, the validation of the batch.

        Raises RecordTooLargeError, RecordBatchTooLargeError, CorruptRecordError, InvalidRecordError (and
        RecordValidationError), InvalidTimestampError, OutOfOrderSequenceError, InvalidProducerEpochError,
        InvalidTxnStateError, TransactionCoordinatorFencedError, UnsupportedCompressionError, LogClosedError,
        LogDirIOError, LargeBatchError; the log is unchanged then.
        """
        return self._leader.append(records, leader_epoch, origin)

    def append_as_follower(self, records: Buffer) -> LogAppendInfo:
        """Append batches with the offsets that the leader assigned. A batch that is cut off at the end is left out.

        Batches that do not fit into one segment are appended to several; after a LogDirIOError, the log may have the
        first of these. It is unchanged after CorruptRecordError, OffsetsOutOfOrderError, UnexpectedAppendOffsetError
        and LogClosedError.
        """
        return self._follower.append(memoryview(records))

    def skip_to(self, offset: int) -> None:
        """Give the next record of a follower `offset`: compaction removed those before it. Raises LogDirIOError."""
        self.roll(offset)
        self.offsets.end = self.producers.end_offset = offset

    def roll(self, base_offset: int = 0) -> LogSegment:
        """Begin a new segment at `base_offset`, or at the log end offset if that is larger. Raises LogDirIOError.

        If the active segment is empty and begins there, it stays.
        """
        return self.segments.roll(max(base_offset, self.offsets.end))

    # -- read --------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        max_offset: int,
        min_one_message: bool = True,
        include_aborted: bool = False,
        may_wait: bool = True,
    ) -> LogReadInfo:
        """A range of records from `offset` on, of one segment. The records themselves are not read here.

        max_bytes: where the range is cut, within a batch if need be. max_offset: the first offset that must not be
        read (high watermark, last stable offset or log end offset). min_one_message: the first batch is whole,
        whatever max_bytes is. may_wait: wait for indexes that are not in the page cache; else ColdReadError is raised.
        Raises OffsetOutOfRangeError, LogDirIOError.
        """
        offsets = self.offsets
        if not offsets.start <= offset <= offsets.end:
            raise OffsetOutOfRangeError(offset, offsets.start, offsets.end)
        try:
            return self._reader.read(offset, max_bytes, max_offset, min_one_message, include_aborted, may_wait)
        except OSError as error:
            raise self.files.failed(error) from error

    def prepare_lookup(self, timestamp: int | None) -> TimestampLookup:
        """The lookup of the first record whose timestamp is at least `timestamp`; None: of the largest timestamp.

        `LogReads.look_up` runs it in another thread.
        """
        return TimestampLookup(self.segments, self.offsets.start, timestamp)

    # -- truncation --------------------------------------------------------------------------------

    def prepare_truncation(self, offset: int) -> ProducerReplay | None:
        """The replay that a truncation to `offset` needs. None if it needs none.

        `LogTruncations` runs it in another thread.
        """
        if not self.segments[0].base_offset <= offset < self.offsets.end:
            return None
        return ProducerReplay(self.segments, min(self.offsets.start, offset), offset, self.now_ms())

    def truncate_to(self, offset: int, replayed: ProducerReplay | None = None) -> bool:
        """Remove the records from `offset` on. False if there are none. Raises LogDirIOError.

        replayed: the state of the producers at `offset`. Without it, or if it is outdated, the log is replayed here.
        """
        if offset < 0:
            raise ValueError(f"cannot truncate to offset {offset}")
        offsets, segments = self.offsets, self.segments
        if offset >= offsets.end:
            # A leader that never appended may have left an epoch that begins at the end.
            self.leader_epochs.truncate_from_end(offsets.end)
            return False
        if segments[0].base_offset > offset:
            self.truncate_fully_and_start_at(offset)
            return True
        if replayed is not None and replayed.is_outdated:
            replayed = None
        self.abort_compaction("it is truncated")
        count = segments.number_of(offset) + 1
        removed = segments[count:]
        segments.replace(segments[:count])
        segments.files.remove(removed[::-1])
        with self.files.failing():
            segments.active.truncate_to(offset)
        offsets.end = offset
        self.durability.truncated_to(offset)
        self.leader_epochs.truncate_from_end(offset)
        offsets.start = min(offsets.start, offset)
        if replayed is None:
            rebuild_producers(self.producers, segments.all, offsets.start, offset, self.now_ms())
        else:
            self.producers.adopt(replayed.producers)
        self.update_high_watermark(offsets.high_watermark)  # it must not stay above the end; the replay ignores it
        self.on_truncate(self)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove every record; the next one gets `offset`. Raises LogDirIOError."""
        self.abort_compaction("it is truncated")
        files = self.segments.files
        files.remove(self.segments[::-1])
        self.segments.replace((files.create(offset),))
        self.offsets.end = offset
        self.durability.truncated_to(offset)
        self.leader_epochs.clear()
        self.producers.truncate_fully_and_start_at(offset)
        self.offsets.start = offset
        self.update_high_watermark(offset)
        self.on_truncate(self)

    # -- retention ---------------------------------------------------------------------------------

    def delete_old_segments(self) -> int:
        """Remove segments below the log start offset and, with cleanup.policy=delete, by size and age.

        Returns how many were removed. Raises LogDirIOError.
        """
        config = self.config
        deleted = self.delete_below_start()
        if not config.deletes:
            return deleted
        if config.retention_bytes >= 0 and self.size_bytes >= config.retention_bytes:
            deleted += self._delete_oldest(retention.beyond_size(self.size_bytes - config.retention_bytes))
        if config.retention_ms >= 0:
            deleted += self._delete_oldest(retention.older_than(self.now_ms() - config.retention_ms))
        return deleted

    def delete_below_start(self) -> int:
        """Remove whole segments below the log start offset; returns how many. Raises LogDirIOError."""
        return self._delete_oldest(retention.below(self.offsets.start))

    def _delete_oldest(self, condition: retention.Condition) -> int:
        """Remove the oldest segments that meet `condition`. If all of them go, a new one is created."""
        segments = self.segments
        count = retention.count_oldest(segments, self.offsets, condition)
        if count:
            if count == len(segments):
                self.roll()
            removed = segments[:count]
            segments.replace(segments[count:])
            self.increment_log_start_offset(segments[0].base_offset)
            segments.files.remove(removed)
        return count

    # -- flush and close ---------------------------------------------------------------------------

    def prepare_flush(self, offset: int | None = None) -> Flush | None:
        """The sync that makes everything below `offset` (default: log end offset) durable; None if it is durable.

        Run it in any thread (`Flush.run` blocks), then call `Flush.done` or `Flush.failed` in the log's thread. Raises
        LogDirIOError.
        """
        return self.durability.prepare(self.offsets.end if offset is None else offset)

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
            self.segments.seal()

    def abort_compaction(self, reason: str) -> None:
        """Abort a compaction that is under way. Call it before any change of the log but an append."""
        if self.compaction is not None:
            self.compaction.abort(reason)

    def release(self) -> None:
        """Drop the descriptors. Appends are refused from now on."""
        self.abort_compaction("the log is closed")
        self.segments.release()

    def close(self) -> None:
        """Clean stop: seal, sync, release. Raises LogDirIOError."""
        if not self.closed:
            self.seal()
            self.flush()
            self.release()

    # -- move --------------------------------------------------------------------------------------

    def move_to(self, directory: Path) -> None:
        """Rename the directory. Descriptors are opened again when they are needed. Raises LogDirIOError."""
        self.abort_compaction("its directory is renamed")
        self.files.rename(directory)
        self.segments.move_to(str(directory))
        self.producers.move_to(str(directory))
        self.leader_epochs.directory = str(directory)

    def replace(self, current: Log) -> None:
        """Replace `current`, of which this log is a complete copy in another log directory: take its name and state.

        Raises LogDirIOError if the rename failed; nothing has changed then. What cannot be written afterwards is
        written by the next flush.
        """
        active = self.segments.active
        with self.files.failing():
            active.txn_index.write_pending()  # what is only in memory is forgotten with the old paths
            active.offset_index.trim()
            active.time_index.trim()
        self.move_to(self.directory.parent / f"{self.topic}-{self.partition}")
        self.files.is_directory_unsynced = True
        with contextlib.suppress(LogDirIOError):
            self.leader_epochs.replace(current.leader_epochs.entries)
            if current.topic_id is not None:
                self.files.assign_topic_id(current.topic_id)
        self.increment_log_start_offset(self.update_high_watermark(current.log_start_offset))
        self.producers.take_over(current.producers)
        self.update_high_watermark(current.high_watermark)
        with contextlib.suppress(LogDirIOError):
            self.producers.take_snapshot()
        self.is_claimed = current.is_claimed

    def __repr__(self) -> str:
        offsets = self.offsets
        return (
            f"Log({self.topic}-{self.partition}, offsets={offsets.start}..{offsets.end}, "
            f"high_watermark={offsets.high_watermark}, segments={len(self.segments)}, "
            f"directory={str(self.directory)!r})"
        )
