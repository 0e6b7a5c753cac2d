"""One compaction of a `Log` on the event loop's thread: the job, the swap of each finished group, and abort.

The swap has Kafka's order of renames, so that a start can finish or undo it at each step:

1. `.cleaned` files become `.swap` files. Until all of them are renamed, a start removes them; afterwards a start
   finishes the swap.
2. The files of the old segments become `.deleted` files.
3. The `.swap` files lose their suffix.

The directory is synced before step 2 and at the end. Readers of the old segments can finish their reads.

A log calls `abort` before it is truncated, closed, renamed or deleted. The run then does not change the log any more,
and its staged files are removed at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from storage.compaction.cleaned_segment import CLEANED_SUFFIX
from storage.compaction.compaction import CleanedGroup, Compaction, CompactionJob, CompactionResult
from storage.errors import CompactionAbortedError
from storage.log.leftovers import SWAP_SUFFIX
from storage.log.segment import SEGMENT_SUFFIXES, file_name

if TYPE_CHECKING:
    from storage.log.log import Log

DEFAULT_DEDUPE_BUFFER_BYTES = 128 * 1024 * 1024
DEFAULT_LOAD_FACTOR = 0.9
DEFAULT_IO_BUFFER_BYTES = 256 * 1024


class CompactionRun:
    """A running compaction of `log`, set as `log.compaction`. A log has at most one at a time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._staged: CleanedGroup | None = None
        self._staged_files: list[str] = []  # final paths
        self.aborted: str | None = None
        """The reason for the abort; None if the run was not aborted."""
        self.is_unfinished = True
        """Whether `.cleaned` files of the run may be left."""
        self.on_abort: Callable[[], None] | None = None
        assert log.compaction is None
        log.compaction = self

    def job(
        self,
        first_dirty_offset: int,
        end_offset: int,
        *,
        dedupe_buffer_bytes: int = DEFAULT_DEDUPE_BUFFER_BYTES,
        dedupe_load_factor: float = DEFAULT_LOAD_FACTOR,
        io_buffer_bytes: int = DEFAULT_IO_BUFFER_BYTES,
    ) -> CompactionJob:
        """Return the job for offsets from `storage.compaction.cleanable`; buffer sizes are in bytes."""
        log = self._log
        config = log.config
        return CompactionJob(
            directory=str(log.directory),
            segments=[(segment.base_offset, segment.size) for segment in log.segments[:-1]],
            first_dirty_offset=first_dirty_offset,
            end_offset=end_offset,
            active_aborted=list(log.segments[-1].txn_index.entries),
            last_records=[
                (producer.producer_id, producer.last_data_offset, producer.producer_epoch)
                for producer in log.producers.producers.values()
            ],
            now_ms=log.now_ms(),
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            dedupe_buffer_bytes=dedupe_buffer_bytes,
            dedupe_load_factor=dedupe_load_factor,
            io_buffer_bytes=io_buffer_bytes,
        )

    def done(self) -> None:
        """Note that every group was swapped in, so that no files are left. Raises CompactionAbortedError."""
        self.check()
        self.is_unfinished = False

    def check(self) -> None:
        """Raise CompactionAbortedError if the run was aborted."""
        if self.aborted is not None:
            raise CompactionAbortedError(f"{self._log.topic}-{self._log.partition}: {self.aborted}")

    def stage(self, group: CleanedGroup) -> None:
        """Rename the finished files to `.swap`. The caller syncs the directory before it calls `swap`.

        Raises LogDirIOError; CompactionAbortedError, also if the log no longer has the segments of the job.
        """
        self.check()
        log = self._log
        present = {segment.base_offset for segment in log.segments[:-1]}
        if not present.issuperset(group.sources):
            self.abort("its segments have changed")
            self.check()
        directory = log.directory
        paths = [f"{directory}/{file_name(group.base_offset, suffix)}" for suffix in SEGMENT_SUFFIXES]
        self._staged = group
        with log.files.failing():
            self._staged_files = [path for path in paths if log.files.fs.exists(path + CLEANED_SUFFIX)]
            for path in self._staged_files:
                log.files.fs.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)

    def swap(self) -> None:
        """Replace the group's source segments by the staged segment. The caller syncs the directory afterwards.

        Raises CompactionAbortedError, LogDirIOError.
        """
        self.check()
        log, group = self._log, self._staged
        assert group is not None
        sources = set(group.sources)
        old = [segment for segment in log.segments if segment.base_offset in sources]
        first = log.segments.index(old[0])
        removed: list[str] = []
        with log.files.failing():
            for segment in old:
                removed += segment.rename_deleted()
                if segment.base_offset != group.base_offset:
                    snapshot = log.producers.remove_snapshot_of(segment.base_offset)
                    if snapshot is not None:
                        removed.append(snapshot)
            for path in self._staged_files:
                log.files.fs.rename(path + SWAP_SUFFIX, path)
            new = log.segments.files.open(group.base_offset)
        self._staged, self._staged_files = None, []
        log.segments.replace((*log.segments[:first], new, *log.segments[first + len(old) :]))
        log.segments.files.remove_later(removed)

    def abort(self, reason: str) -> None:
        """Abort the run. The log calls this before any other change. May be called more than once."""
        if self.aborted is not None:
            return
        self.aborted = reason
        if self.on_abort is not None:
            self.on_abort()
        for path in self._staged_files:
            with contextlib.suppress(OSError):
                self._log.files.fs.remove(path + SWAP_SUFFIX)
        self._staged, self._staged_files = None, []

    def end(self) -> None:
        """End the run, after success or failure; abort a swap that has failed."""
        if self._staged is not None:
            self.abort("the swap has failed")
        if self._log.compaction is self:
            self._log.compaction = None


def compact_log(
    log: Log,
    first_dirty_offset: int,
    end_offset: int,
    *,
    dedupe_buffer_bytes: int = DEFAULT_DEDUPE_BUFFER_BYTES,
    dedupe_load_factor: float = DEFAULT_LOAD_FACTOR,
    io_buffer_bytes: int = DEFAULT_IO_BUFFER_BYTES,
) -> CompactionResult:
    """Compact `log` synchronously up to the segment that begins at `end_offset`.

    The offsets are those of `cleanable_range`. The caller keeps the result's `end_offset`: it is the next first dirty
    offset. Raises CompactionAbortedError, LogDirIOError, and the exceptions of `Compaction.run` except OSError.
    """
    run = CompactionRun(log)
    try:
        job = run.job(
            first_dirty_offset,
            end_offset,
            dedupe_buffer_bytes=dedupe_buffer_bytes,
            dedupe_load_factor=dedupe_load_factor,
            io_buffer_bytes=io_buffer_bytes,
        )
        compaction = Compaction(job, log.files.fs)
        for group in compaction.run():
            run.stage(group)
            log.files.fs.sync_directory(str(log.directory))
            run.swap()
            log.files.fs.sync_directory(str(log.directory))
        return compaction.result
    except OSError as error:
        raise log.files.failed(error) from error
    finally:
        run.end()
