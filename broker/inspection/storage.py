"""The files of this broker's logs for the console. They are read in another thread, one inspection at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from broker.services import Services
from console.inspection.errors import BusyError, InspectionError, NothingThereError
from console.inspection.storage import (
    BatchInFile,
    BatchPage,
    EpochStart,
    IndexEntry,
    IndexPage,
    IndexStep,
    OffsetSearch,
    PartitionStorage,
    ProducerSummary,
    ScannedBatch,
    SegmentFile,
    SegmentStep,
    SegmentSummary,
)
from protocol.errors import CorruptRecordError
from protocol.sentinels import NO_LEADER
from storage.errors import StorageError
from storage.log.inspection import InspectedBatch, LogInspection
from storage.log.log import Log
from storage.log_reads import LogReads

T = TypeVar("T")

MAX_SEGMENTS: Final = 100
MAX_EPOCHS: Final = 100
MAX_PRODUCERS: Final = 100
MAX_ENTRIES: Final = 200
MAX_BATCHES: Final = 50
MAX_SHOWN_SCAN: Final = 100
"""Batches of a scan in one answer, half of them from its beginning."""
TIMEOUT_S: Final = 10.0
ATTEMPTS: Final = 3


class LogStorage:
    """Implements `console.inspection.storage.StorageInspection`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reads = LogReads(services.logs.fs, at_once=1)

    async def partition(self, topic: str, partition: int, first_segment: int | None) -> PartitionStorage:
        """See `StorageInspection`."""
        found = self._services.replicas.partitions.get((topic, partition))
        answer = self._placed(topic, partition)
        if found is None or found.log is None:
            return answer
        log = found.log
        segments = log.segments.all
        first = max(len(segments) - MAX_SEGMENTS, 0) if first_segment is None else min(first_segment, len(segments))
        shown = segments[first : first + MAX_SEGMENTS]
        ends = [*(one.base_offset for one in segments[first + 1 : first + len(shown)]), log.log_end_offset]
        if first + len(shown) < len(segments):
            ends[-1] = segments[first + len(shown)].base_offset
        answer = answer.model_copy(update=_state(log) | {"first_segment": first})
        files = await self._read(
            topic, partition, lambda inspection: [inspection.files(one.base_offset) for one in shown]
        )
        answer.segments = [
            SegmentSummary(
                base_offset=segment.base_offset,
                next_offset=end,
                is_active=segment is segments[-1],
                files=[SegmentFile(name=one.name, size=one.size) for one in inspected],
            )
            for segment, end, inspected in zip(shown, ends, files, strict=True)
        ]
        return answer

    def _placed(self, topic: str, partition: int) -> PartitionStorage:
        """Return where a partition is. Raises NothingThereError."""
        state = self._services.metadata.snapshot.partition(topic, partition)
        if state is None:
            raise NothingThereError(f"there is no partition {topic}-{partition}")
        return PartitionStorage(
            broker_id=self._services.broker_id,
            leader=None if state.leader == NO_LEADER else state.leader,
            replicas=list(state.replicas),
        )

    async def index(self, topic: str, partition: int, base_offset: int, kind: str, first: int) -> IndexPage:
        """See `StorageInspection`."""

        def read(inspection: LogInspection) -> IndexPage:
            if kind == "OFFSET":
                count, pairs = inspection.offset_entries(base_offset, first, MAX_ENTRIES)
                entries = [IndexEntry(offset=offset, position=position) for offset, position in pairs]
            elif kind == "TIME":
                count, pairs = inspection.time_entries(base_offset, first, MAX_ENTRIES)
                entries = [IndexEntry(offset=offset, timestamp_ms=timestamp) for timestamp, offset in pairs]
            else:
                count, aborted = inspection.aborted(base_offset, first, MAX_ENTRIES)
                entries = [
                    IndexEntry(offset=one.first_offset, last_offset=one.last_offset, producer_id=one.producer_id)
                    for one in aborted
                ]
            return IndexPage(entries_found=count, first=first, entries=entries)

        return await self._read(topic, partition, read)

    async def batches(self, topic: str, partition: int, base_offset: int, position: int) -> BatchPage:
        """See `StorageInspection`."""
        found, following = await self._read(
            topic, partition, lambda inspection: inspection.batches(base_offset, position, MAX_BATCHES)
        )
        return BatchPage(batches=[_shown_batch(one) for one in found], next_position=following)

    async def search(self, topic: str, partition: int, offset: int) -> OffsetSearch:
        """See `StorageInspection`."""
        log = self._log(topic, partition)
        if not log.log_start_offset <= offset < log.log_end_offset:
            last = log.log_end_offset - 1
            if last < log.log_start_offset:
                raise InspectionError("The log is empty: there is no offset to look for.")
            raise InspectionError(f"The offset must be from {log.log_start_offset} to {last}.")
        found = await self._read(topic, partition, lambda inspection: inspection.search(offset))
        scanned = found.scanned
        if len(scanned) > MAX_SHOWN_SCAN:
            scanned = scanned[: MAX_SHOWN_SCAN // 2] + scanned[-MAX_SHOWN_SCAN // 2 :]
        return OffsetSearch(
            offset=offset,
            segments=found.segments,
            segment_steps=[SegmentStep(**one._asdict()) for one in found.segment_probes],
            base_offset=found.base_offset,
            index_entries=found.index_entries,
            index_steps=[IndexStep(**one._asdict()) for one in found.index_probes],
            indexed_position=found.indexed_position,
            scanned=[
                ScannedBatch(
                    position=one.position, size=one.size, base_offset=one.base_offset, last_offset=one.last_offset
                )
                for one in scanned
            ],
            scanned_batches=len(found.scanned),
            is_found=found.is_found,
        )

    def _log(self, topic: str, partition: int) -> Log:
        found = self._services.replicas.partitions.get((topic, partition))
        if found is not None and found.log is not None:
            return found.log
        brokers = ", ".join(map(str, self._placed(topic, partition).replicas))
        raise NothingThereError(f"{topic}-{partition} is not on this broker, but on: {brokers}")

    async def _read(self, topic: str, partition: int, read: Callable[[LogInspection], T]) -> T:
        """Run a read in another thread, again if the log has lost or rewritten records meanwhile."""
        for _ in range(ATTEMPTS):
            inspection = LogInspection(self._log(topic, partition))
            failure: InspectionError | None = None
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    result = await self._reads.run(_closing(inspection, read))
            except TimeoutError:
                raise BusyError("The disk does not answer in time.") from None
            except KeyError as error:
                failure = NothingThereError(f"there is no segment {error.args[0]}")
            except (OSError, CorruptRecordError, StorageError) as error:
                failure = InspectionError(f"The files cannot be read: {error}")
            if inspection.is_outdated:
                continue
            if failure is not None:
                raise failure
            return result
        raise BusyError("The log loses or rewrites records all the time; try again later.")


def _closing(inspection: LogInspection, read: Callable[[LogInspection], T]) -> Callable[[], T]:
    def run() -> T:
        try:
            return read(inspection)
        finally:
            inspection.close()

    return run


def _state(log: Log) -> dict[str, Any]:
    """Return the fields of `PartitionStorage` that are in memory."""
    producers = log.producers.producers
    newest = sorted(producers.values(), key=lambda one: one.last_timestamp)[-MAX_PRODUCERS:]
    return {
        "directory": str(log.directory),
        "log_start_offset": log.log_start_offset,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": log.high_watermark,
        "log_end_offset": log.log_end_offset,
        "recovery_point": log.recovery_point,
        "index_interval_bytes": log.config.index_interval_bytes,
        "segments_found": len(log.segments),
        "leader_epochs": [
            EpochStart(epoch=epoch, start_offset=start) for epoch, start in log.leader_epochs.entries[-MAX_EPOCHS:]
        ],
        "producers_found": len(producers),
        "producers": [
            ProducerSummary(
                producer_id=one.producer_id,
                epoch=one.producer_epoch,
                last_sequence=one.last_sequence,
                last_offset=one.last_data_offset,
                last_timestamp_ms=one.last_timestamp,
                transaction_start=None if one.current_txn_first_offset < 0 else one.current_txn_first_offset,
            )
            for one in reversed(newest)
        ],
    }


def _shown_batch(batch: InspectedBatch) -> BatchInFile:
    header = batch.header
    return BatchInFile(
        position=header.position,
        size=header.size,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        records=batch.records,
        magic=header.magic,
        compression=batch.compression,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        leader_epoch=header.leader_epoch,
        first_timestamp_ms=batch.base_timestamp,
        max_timestamp_ms=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        crc=f"{batch.crc:08x}",
        is_crc_valid=batch.is_crc_valid,
    )
