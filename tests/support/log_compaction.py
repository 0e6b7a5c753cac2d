"""Checks of a compaction by the batches before and after it, independent of the implementation.

Only records from the log start offset on are looked at: below it nobody reads, and what was known may be forgotten.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from protocol.record_batch import RecordBatch, iter_batches
from storage.compaction.cleanable import CleanableRange
from support.log_model import Batch, Model

Record = tuple[int, int, bytes | None, bytes | None]


def batches_on_disk(log: Any, model: Model) -> list[Batch]:
    """The batches of every segment, with what the model knows of them."""
    known = {each.base: each for each in model.batches}
    found = []
    for segment in log.segments:
        for batch in iter_batches(log.files.fs.read_file(segment.file.path)[: segment.size]):
            batch.check_crc()
            before = known[batch.base_offset]
            records = [(record.offset, record.timestamp, record.key, record.value) for record in batch.records()]
            if batch.is_control:
                records = [(offset, timestamp, None, None) for offset, timestamp, _, _ in records]
            found.append(replace(before, data=bytes(batch.buffer), records=records, max_timestamp=batch.max_timestamp))
            assert batch.size_bytes == len(found[-1].data)
            check_header(batch, before)
    return found


def check_header(batch: RecordBatch, before: Batch) -> None:
    """Check that a batch keeps its offsets, epoch and producer, even without its records."""
    assert (
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        batch.is_control,
    ) == (
        before.base,
        before.last,
        before.epoch,
        before.producer,
        before.producer_epoch,
        before.sequence,
        before.transactional,
        before.marker is not None,
    )
    newest = max((record.timestamp for record in batch.records()), default=None)
    assert batch.max_timestamp == (before.max_timestamp if newest is None else newest)


class CompactionCheck:
    """A compaction of `cleanable`, with keys up to `end`, at `now_ms`: judged by the batches before and after it."""

    def __init__(self, model: Model, cleanable: CleanableRange, end: int, now_ms: int) -> None:
        self._before = list(model.batches)
        self._model = model
        self._untouched_from = cleanable.end_offset
        self._end = end
        self._now_ms = now_ms
        self._aborted = self._aborted_bases()
        self._newest: dict[bytes, int] = {}  # of every key the last offset in the dirty range
        self._last: dict[bytes, int] = {}  # and in all that was looked at
        for each in self._before:
            if each.marker is None and each.base not in self._aborted:
                for offset, _, key, _ in each.records:
                    if key is not None and offset < end:
                        self._last[key] = offset
                        if offset >= cleanable.first_dirty_offset:
                            self._newest[key] = offset

    def _aborted_bases(self) -> set[int]:
        """Data batches of aborted transactions."""
        found: set[int] = set()
        opened: dict[int, list[int]] = {}
        for each in self._model.history:
            if each.marker is not None:
                bases = opened.pop(each.producer, [])
                found |= set() if each.marker.committed else set(bases)
            elif each.transactional:
                opened.setdefault(each.producer, []).append(each.base)
        return found

    def check(self, after: list[Batch], *, finished: bool) -> None:
        """finished: it was not interrupted, so what must go is gone."""
        left = {each.base: each for each in after}
        assert list(left) == sorted(left)
        assert left.keys() <= {each.base for each in self._before}
        for each in self._before:
            now = left.get(each.base)
            records = now.records if now is not None else []
            assert records == [record for record in each.records if record in records]
            if each.base >= self._untouched_from:
                assert now is not None
                assert now.data == each.data
            for record in each.records:
                if record[0] >= self._model.start:
                    if record not in records:
                        assert self._may_go(each, record), f"{record} is gone"
                    elif finished:
                        assert not self._must_go(each, record), f"{record} is still there"
        if finished:
            self._check_producers(left)

    def _horizon_is_over(self, batch: Batch) -> bool:
        horizon = RecordBatch(memoryview(batch.data)).delete_horizon_ms
        return horizon is not None and horizon <= self._now_ms

    def _may_go(self, batch: Batch, record: Record) -> bool:
        offset, _, key, value = record
        if batch.marker is not None:
            return self._horizon_is_over(batch) and not self._transaction_is_there(batch)
        return (
            batch.base in self._aborted
            or key is None
            or self._last.get(key, -1) > offset
            or (value is None and self._horizon_is_over(batch))
        )

    def _must_go(self, batch: Batch, record: Record) -> bool:
        offset, _, key, _ = record
        if batch.marker is not None or offset >= self._end:
            return False
        return batch.base in self._aborted or key is None or self._newest.get(key, -1) > offset

    def _transaction_is_there(self, marker: Batch) -> bool:
        own = False
        for each in self._before:
            if each is marker:
                break
            if each.producer == marker.producer:
                own = each.marker is None and (own or each.transactional)
        return own

    def _check_producers(self, left: dict[int, Batch]) -> None:
        """Check that the last batch of every known producer is kept, at least its header."""
        for producer_id, producer in self._model.producers().items():
            if producer.batches:
                last = producer.batches[-1].base
                there = any(each.base == last for each in self._before)
                assert not there or last in left, f"the last batch of producer {producer_id}, at {last}, is gone"
