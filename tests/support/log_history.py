"""Histories of a log: numbers become operations on a `Log` and on its `Model`, and the two are compared.

A history is a list of numbers below 2^24: the high byte picks the operation, the two low ones say what it is about.
So whatever can make, shrink and repeat lists of numbers can drive it. Files are real; on tmpfs where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from storage.compaction.cleanable import cleanable_range
from storage.compaction.run import compact_log
from storage.errors import OffsetOutOfRangeError
from storage.log.config import LogConfig
from storage.log.log import Log
from support.log_appends import MAX_MESSAGE_BYTES, Appends
from support.log_checks import check_files, check_max_timestamp, check_reads, expected_read, layout, pick
from support.log_compaction import CompactionCheck, batches_on_disk
from support.log_dirs import BASE_TIME_MS, UnsyncedFileSystem, look_up
from support.log_model import Model

SEGMENT_BYTES = (150, 400, 1000, 100_000)


@cache
def config_of(number: int) -> LogConfig:
    """One of the configurations of a history; 0 has nearly Kafka's defaults."""
    return LogConfig().with_overrides(
        segment_bytes=SEGMENT_BYTES[3 - number % 4],
        index_interval_bytes=(1000, 100, 1)[number // 4 % 3],
        segment_ms=(100_000, 40)[number // 12 % 2],
        segment_index_bytes=(1 << 20, 60)[number // 24 % 7 == 6],
        retention_ms=(-1, 300, -1, 60)[number // 168 % 4],
        retention_bytes=(-1, 700, 250)[number // 672 % 3],
        cleanup_policy=({"delete"}, {"compact"}, {"compact", "delete"})[number // 2016 % 5 % 3],
        delete_retention_ms=(0, 50)[number // 2016 % 5 // 3],
        message_timestamp_type=("CreateTime", "LogAppendTime")[number // 10080 % 6 == 5],
        max_message_bytes=MAX_MESSAGE_BYTES,
    )


class PowerLostError(Exception):
    """The simulated process dies during an operation."""


class MortalFileSystem(UnsyncedFileSystem):
    """Ends the process at one of the next changes of a directory. Nothing is synced, for the machine lives on."""

    operations_left: int | None = None

    def _count(self) -> None:
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left < 0:
                raise PowerLostError

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)

    def remove(self, path: str) -> bool:
        self._count()
        return super().remove(path)

    def sync_directory(self, path: str) -> None:
        self._count()


class History(Appends):
    """A log under `root`, its expected state in `model`, and its operations so far in `trail`."""

    def __init__(self, root: Path, setup: int = 0, fs: MortalFileSystem | None = None) -> None:
        self.directory = root / "t-0"
        self.fs = fs or MortalFileSystem()
        self.model = Model()
        self.trail: list[str] = []
        self.config = config_of(setup)
        self.now = BASE_TIME_MS
        self.made = 0
        self.checkpoint = (0, 0)  # recovery point, log start offset: what the files of the log directory would say
        self.compacted_to: int | None = None  # cleaner-offset-checkpoint
        self.gaps = False  # whether a compaction has removed batches
        self.touched = 0  # up to where it may have
        self.pending: list[tuple[list[str], int]] = []  # files that wait for their removal
        self.readers: list[tuple[Any, bytes]] = []
        self.flush: list[Any] = []
        self.log = self.open(clean=True)

    def open(self, *, clean: bool) -> Log:
        log = Log.open(
            self.directory,
            self.config,
            fs=self.fs,
            now_ms=lambda: self.now,
            clean_shutdown=clean,
            recovery_point=self.checkpoint[0],
            log_start_offset=self.checkpoint[1],
        )
        log.files.schedule_removal = lambda paths, delay_ms: self.pending.append((paths, delay_ms))
        return log

    def run(self, numbers: Sequence[int]) -> None:
        """Run all operations, and a clean restart at the end."""
        try:
            for number in numbers:
                self.step(number >> 16, number >> 8 & 0xFF, number & 0xFF)
            self.check_all()
            self.restart(0, 0)
            self.check_all()
        finally:
            self.log.release()

    def step(self, operation: int, a: int, b: int) -> None:
        method = OPERATIONS[operation]
        self.trail.append(f"{method.__name__}({a}, {b})  # {self.model.start}..{self.model.end}")
        self.now += 3
        method(self, a, b)
        self.check()

    # -- operations: offsets, segments, settings ---------------------------------------------------

    def roll(self, a: int, b: int) -> None:
        active, size = self.log.segments[-1].base_offset, self.log.segments[-1].size
        self.log.roll()
        assert self.log.segments[-1].base_offset == self.model.end
        assert self.log.segments[-1].size == 0
        assert size == 0 or active in self.log.segments.base_offsets

    def move_high_watermark(self, a: int, b: int) -> None:
        offset = self.model.high_watermark + pick(a, self.model.end - self.model.high_watermark)
        offset += (0, 0, 0, 0, 0, 0, 7, -9)[b % 8]
        self.model.move_high_watermark(offset)
        assert self.log.update_high_watermark(offset) == self.model.high_watermark

    def commit_all(self, a: int, b: int) -> None:
        self.log.commit_all()
        self.model.move_high_watermark(self.model.end)

    def move_start(self, a: int, b: int) -> None:
        with pytest.raises(OffsetOutOfRangeError):
            self.log.increment_log_start_offset(self.model.high_watermark + 1)
        offset = self.model.start + pick(a, self.model.high_watermark - self.model.start)
        assert self.log.increment_log_start_offset(offset) == (offset > self.model.start)
        self.model.move_start(offset)

    def delete_old_segments(self, a: int, b: int) -> None:
        first = self.first_to_keep()
        bases = list(self.log.segments.base_offsets)
        deleted = self.log.delete_old_segments()
        assert deleted == (bases.index(first) if first in bases else len(bases))
        assert self.log.segments[0].base_offset == first
        self.model.delete_below(first)
        self.model.move_start(first)

    def first_to_keep(self) -> int:
        """The first segment that retention keeps; the log end offset if it deletes all."""
        model, config = self.model, self.config
        bases = [*self.log.segments.base_offsets, None]
        size = sum(len(each.data) for each in model.batches)
        for base, following in pairwise(bases):
            assert base is not None
            until = model.end if following is None else following
            inside = [each for each in model.batches if base <= each.base < until]
            bytes_inside = sum(len(each.data) for each in inside)
            newest = max((each.max_timestamp for each in inside), default=-1)
            below_start = following is not None and following <= model.start
            too_much = config.retention_bytes >= 0 and size - bytes_inside >= config.retention_bytes
            too_old = config.retention_ms >= 0 and 0 <= newest < self.now - config.retention_ms
            gone = below_start or (config.deletes and (too_much or too_old))
            if not gone or until > model.high_watermark or (following is None and not inside):
                return base
            size -= bytes_inside
        return model.end

    def compact(self, a: int, b: int) -> None:
        """Compact what can be; with a small buffer not all of it, or up to a crash in the middle."""
        cleanable = cleanable_range(self.log, self.compacted_to)
        if not self.config.compacts or cleanable.first_dirty_offset >= cleanable.end_offset:
            return
        assert cleanable.end_offset <= max(self.model.last_stable_offset, cleanable.first_dirty_offset)
        self.gaps = True
        self.touched = max(self.touched, cleanable.end_offset)
        self.fs.operations_left = b // 8 % 16 if b % 8 == 7 else None
        try:
            result = compact_log(
                self.log,
                cleanable.first_dirty_offset,
                cleanable.end_offset,
                dedupe_buffer_bytes=24 * (a % 8 + 3) if a % 4 == 3 else 1 << 14,
            )
        except PowerLostError:
            self.fs.operations_left = None
            check = CompactionCheck(self.model, cleanable, cleanable.end_offset, self.now)
            self.log.release()
            self.reopen(clean=False, compaction=check)
            return
        self.fs.operations_left = None
        check = CompactionCheck(self.model, cleanable, result.end_offset, self.now)
        after = batches_on_disk(self.log, self.model)
        check.check(after, finished=True)
        self.compacted_to = result.end_offset
        self.model.batches = after
        self.model.adopt_aborted(self.log)
        self.check_all()

    def truncate(self, a: int, b: int) -> None:
        first = self.log.segments[0].base_offset
        offset = max(first - (b % 8 == 7) * 2, 0) + pick(a, self.model.end + 2 - first)
        offset = max(offset, self.touched)  # what was compacted is committed, and nobody truncates below that
        assert self.log.truncate_to(offset) == (offset < self.model.end)
        if offset >= self.model.end:
            self.model.forget_epochs_from(self.model.end)
        elif offset < first:
            self.begin_anew(offset)
        else:
            self.model.truncate(offset)
            self.adopt_cut(offset)

    def truncate_fully(self, a: int, b: int) -> None:
        offset = max(self.model.end + a - 128, 0)
        self.log.truncate_fully_and_start_at(offset)
        self.begin_anew(offset)

    def begin_anew(self, offset: int) -> None:
        self.compacted_to = None
        self.touched = 0
        recovery_point = min(self.model.recovery_point, offset)
        self.model.start_anew(offset)
        self.model.recovery_point = recovery_point
        self.adopt_cut(offset)

    def adopt_cut(self, offset: int) -> None:
        """Records from `offset` on are removed; the caller also writes the checkpoints again."""
        self.checkpoint = (min(self.checkpoint[0], offset), min(self.checkpoint[1], offset))
        self.readers.clear()  # a truncation shortens what they read
        self.flush = [(each, 0) for each, _ in self.flush]  # what was synced may be gone
        self.model.adopt(self.log, gaps=self.gaps)

    def change_settings(self, a: int, b: int) -> None:
        self.config = self.log.config = config_of(a << 8 | b)

    # -- operations: the disk ----------------------------------------------------------------------

    def flush_all(self, a: int, b: int) -> None:
        """Sync up to an offset, mostly the end."""
        offset = self.model.end if a % 4 else self.model.start + pick(b, self.model.end - self.model.start)
        self.log.flush(offset)
        self.model.recovery_point = max(self.model.recovery_point, offset)

    def begin_flush(self, a: int, b: int) -> None:
        """The blocking part of a sync runs elsewhere: it is noted later, and only what it was about."""
        flush = self.log.prepare_flush()
        if flush is not None:
            flush.run()
            self.flush = [(flush, flush.offset)]

    def end_flush(self, a: int, b: int) -> None:
        for flush, limit in self.flush:
            flush.done()
            self.model.recovery_point = max(self.model.recovery_point, limit)
        self.flush = []

    def write_checkpoints(self, a: int, b: int) -> None:
        self.checkpoint = (self.model.recovery_point, self.model.start)

    def remove_files(self, a: int, b: int) -> None:
        """Let file.delete.delay.ms expire."""
        for paths, _ in self.pending:
            for path in paths:
                self.fs.remove(path)
        self.pending.clear()

    def restart(self, a: int, b: int) -> None:
        self.log.close()
        self.model.recovery_point = self.model.end
        self.write_checkpoints(0, 0)
        epochs = self.expected_epochs()
        self.reopen(clean=True)
        assert self.log.leader_epochs.entries == epochs

    def crash(self, a: int, b: int) -> None:
        """Kill the process; the page cache survives."""
        self.log.release()
        self.reopen(clean=False)

    def lose_tail(self, a: int, b: int) -> None:
        """Crash the machine: after the synced part, the newest segment is truncated, or ends in zeros or garbage."""
        self.log.release()
        synced = self.model.recovery_point
        segment = self.log.segments[-1]
        inside = [each for each in self.model.batches if each.base >= segment.base_offset]
        kept = sum(len(each.data) for each in inside if each.last < synced)
        path = Path(segment.file.path)
        data = path.read_bytes()
        keep = kept + pick(a, len(data) - kept)
        tail = (b"", b"", bytes(len(data) - keep), bytes([b]) * min(len(data) - keep, b))[b % 4]
        path.write_bytes(data[:keep] + tail)
        if b // 4 % 2:
            # Indexes of what was not synced may be anything.
            for suffix in (".index", ".timeindex", ".txnindex"):
                index = path.with_suffix(suffix)
                if synced <= segment.base_offset and index.exists():
                    index.write_bytes((b"", bytes(24), bytes([b]) * (a % 50), index.read_bytes()[:-1])[b // 8 % 4])
                    if b // 32 % 4 == 3:
                        index.unlink()
        whole = 0
        for each in inside:
            whole += len(each.data)
            if (data[:keep] + tail)[whole - len(each.data) : whole] != each.data:
                self.model.truncate(max(each.base, segment.base_offset))
                break
        self.reopen(clean=False)

    def expected_epochs(self) -> list[tuple[int, int]]:
        """After a clean stop: without those that begin at the end of the log."""
        model = Model()
        model.epochs = self.model.epochs
        model.forget_epochs_from(self.end_on_disk())
        model.forget_epochs_below(self.model.start)
        return [] if self.end_on_disk() < self.model.start else model.epochs

    def end_on_disk(self) -> int:
        """A log ends behind its last batch, even if offsets were left out there before."""
        active = self.log.segments[-1].base_offset
        return max([active, *(each.last + 1 for each in self.model.batches if each.base >= active)])

    def end_before_gap(self, end: int) -> int:
        """Where an unclean start ends the log: at the first segment that does not follow the one before it."""
        for (base, batches), (following, _) in pairwise(layout(self)):
            before = batches[-1].last + 1 if batches else base
            if following > max(before, self.checkpoint[0]):
                return before
        return end

    def reopen(self, *, clean: bool, compaction: CompactionCheck | None = None) -> None:
        model = self.model
        end, start = self.end_on_disk(), self.checkpoint[1]
        if not clean and not self.config.compacts:
            end = self.end_before_gap(end)
        self.pending.clear()
        self.readers.clear()
        self.flush = []
        if end < start:
            model.batches = []
            model.end = end = start
            model.high_watermark = model.start = start
        else:
            model.truncate(end)
        self.log = self.open(clean=clean)
        model.start = max(start, self.log.segments[0].base_offset)
        model.high_watermark = model.start
        model.recovery_point = end if clean else min(self.checkpoint[0], end)
        self.checkpoint = (min(self.checkpoint[0], end), start)
        model.delete_below(self.log.segments[0].base_offset)
        if compaction is not None:
            after = batches_on_disk(self.log, model)
            compaction.check(after, finished=False)
            model.batches = after
        model.epochs = self.log.leader_epochs.entries
        model.adopt(self.log, gaps=self.gaps)
        self.check_all()

    # -- operations: reading -----------------------------------------------------------------------

    def read(self, a: int, b: int) -> None:
        model = self.model
        offset = model.start + pick(a, model.end - model.start)
        bound = (model.end, model.high_watermark, model.last_stable_offset, offset + b // 16)[b % 4]
        bound = min(bound, model.end)
        max_bytes = (0, 1, 100, 300, 1 << 20)[b // 4 % 5]
        whole = b % 32 != 31
        info = self.log.read(
            offset,
            max_bytes,
            max_offset=bound,
            min_one_message=whole,
            include_aborted=bound == model.last_stable_offset,
        )
        expected = expected_read(self, offset, max_bytes, bound, whole=whole)
        data = b"" if info.records is None else info.records.to_bytes()
        assert data == expected
        if info.aborted_transactions is not None:
            self.check_aborted(offset, data, info.aborted_transactions)
        if b // 8 % 8 == 7 and info.records is not None:
            self.readers.append((info.records, data))

    def check_aborted(self, offset: int, data: bytes, told: list[Any]) -> None:
        read = [each for each in self.model.batches if each.last >= offset and each.data in data]
        end = read[-1].last + 1 if read else offset
        needed = [
            each
            for each in self.model.aborted
            if each.first_offset < end and each.last_offset >= offset and self.model.shows(each) and read
        ]
        assert set(needed) <= set(told) <= set(self.model.aborted)

    def read_out_of_range(self, a: int, b: int) -> None:
        for offset in {self.model.start - 1 - a, self.model.end + 1 + b}:
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(offset, 100, max_offset=self.model.end)

    def look_up(self, a: int, b: int) -> None:
        times = [timestamp for each in self.model.batches for _, timestamp, _, _ in each.records] or [self.now]
        wanted = times[pick(a, len(times) - 1)] + (0, 1, -1, 0, 5, -70)[b % 6]
        assert look_up(self.log, wanted) == self.model.at_timestamp(wanted)
        check_max_timestamp(self)

    def ask_for_epoch(self, a: int, b: int) -> None:
        epoch = a % (self.model.epoch + 3) - 1
        assert self.log.end_offset_for_epoch(epoch) == self.model.end_offset_for_epoch(epoch)

    def read_on(self, a: int, b: int) -> None:
        """Check that readers continue after their segments were deleted."""
        for records, data in self.readers:
            assert records.to_bytes() == data

    # -- checks ------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the cheap invariants after an operation."""
        log, model = self.log, self.model
        assert (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset) == (
            model.start, model.last_stable_offset, model.high_watermark, model.end,
        )  # fmt: skip
        assert log.recovery_point == model.recovery_point
        assert log.size_bytes == sum([len(each.data) for each in model.batches])
        assert log.leader_epochs.entries == model.epochs
        bases = log.segments.base_offsets
        assert list(bases) == sorted(set(bases)) == [segment.base_offset for segment in log.segments]

    def check_all(self) -> None:
        """Check everything: bytes of files, indexes, producers, transactions, epochs, every offset and timestamp."""
        self.check()
        self.read_on(0, 0)
        known = self.model.producers(with_hidden=True)
        assert set(known) == set(self.log.producers.producers)
        assert all(
            known[key].same_as(entry, compacted=self.gaps) for key, entry in self.log.producers.producers.items()
        )
        check_files(self)
        check_reads(self)


_H = History
_WEIGHTS = (
    (_H.nothing, 4), (_H.append, 30), (_H.append_idempotent, 30), (_H.append_transactional, 24),
    (_H.end_transaction, 20), (_H.append_as_follower, 20), (_H.append_in_next_epoch, 3), (_H.become_leader, 3),
    (_H.append_what_is_refused, 4), (_H.roll, 10), (_H.move_high_watermark, 12), (_H.commit_all, 10),
    (_H.move_start, 6), (_H.delete_old_segments, 10), (_H.compact, 12), (_H.truncate, 6), (_H.truncate_fully, 1),
    (_H.change_settings, 5), (_H.flush_all, 6), (_H.begin_flush, 3), (_H.end_flush, 3), (_H.write_checkpoints, 4),
    (_H.remove_files, 3), (_H.restart, 3), (_H.crash, 3), (_H.lose_tail, 4), (_H.read, 9), (_H.look_up, 4),
    (_H.read_out_of_range, 1), (_H.ask_for_epoch, 2), (_H.read_on, 1),
)  # fmt: skip
OPERATIONS = [method for method, weight in _WEIGHTS for _ in range(weight)]
assert len(OPERATIONS) == 256, len(OPERATIONS)
