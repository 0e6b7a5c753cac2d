"""The files of a partition: segments, indexes, batches, and how a read finds an offset."""

from __future__ import annotations

from typing import Protocol

from pydantic import Field

from console.rest.models import Answer


class SegmentFile(Answer):
    """A file of a segment, with its size in bytes."""

    name: str
    size: int


class SegmentSummary(Answer):
    """A segment: the offsets from `base_offset` to `next_offset` - 1 at most, and its files."""

    base_offset: int
    next_offset: int
    is_active: bool
    """Whether it is the one that is written to."""
    files: list[SegmentFile]


class EpochStart(Answer):
    """A line of `leader-epoch-checkpoint`."""

    epoch: int
    start_offset: int


class ProducerSummary(Answer):
    """What the log knows of an idempotent producer: as in the `.snapshot` files."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    last_timestamp_ms: int
    transaction_start: int | None
    """The first offset of the open transaction."""


class PartitionStorage(Answer):
    """The log of a partition on this broker. Without `directory`, this broker does not have it."""

    broker_id: int
    leader: int | None
    replicas: list[int]
    """The brokers that have the partition."""
    directory: str | None = None
    log_start_offset: int = 0
    last_stable_offset: int = 0
    high_watermark: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    """Below it, everything is on disk."""
    index_interval_bytes: int = 0
    segments_found: int = 0
    first_segment: int = 0
    """The number of the first segment of this answer."""
    segments: list[SegmentSummary] = Field(default_factory=list)
    leader_epochs: list[EpochStart] = Field(default_factory=list)
    """The newest ones."""
    producers_found: int = 0
    producers: list[ProducerSummary] = Field(default_factory=list)
    """The ones that wrote last."""


class IndexEntry(Answer):
    """An entry of an index, with absolute offsets.

    `.index`: offset and position. `.timeindex`: timestamp and offset. `.txnindex`: an aborted transaction.
    """

    offset: int
    position: int | None = None
    timestamp_ms: int | None = None
    producer_id: int | None = None
    last_offset: int | None = None


class IndexPage(Answer):
    """Some entries of an index."""

    entries_found: int
    first: int
    entries: list[IndexEntry]


class BatchInFile(Answer):
    """A batch as it is in the file. `records` is null for formats before magic 2."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    records: int | None
    magic: int
    compression: str
    is_transactional: bool
    is_control: bool
    leader_epoch: int
    first_timestamp_ms: int | None
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    crc: str
    is_crc_valid: bool | None
    """null: not checked, the batches of the page are too large."""


class BatchPage(Answer):
    """Some batches of a segment, and the position of the next one."""

    batches: list[BatchInFile]
    next_position: int | None


class SegmentStep(Answer):
    """One comparison of the search for the segment: number `number`, when `low` to `high` - 1 were left."""

    number: int
    base_offset: int
    low: int
    high: int


class IndexStep(Answer):
    """One comparison in the index: the entry of `slot`, when `low` to `high` - 1 were left."""

    slot: int
    offset: int
    position: int
    low: int
    high: int


class ScannedBatch(Answer):
    """A batch header that the scan has read."""

    position: int
    size: int
    base_offset: int
    last_offset: int


class OffsetSearch(Answer):
    """Each step of a read that looks for an offset."""

    offset: int
    segments: int
    segment_steps: list[SegmentStep]
    """Empty if the active segment has the offset: it is asked first."""
    base_offset: int
    """Of the segment that was found."""
    index_entries: int
    index_steps: list[IndexStep]
    indexed_position: int
    """Where the scan begins."""
    scanned: list[ScannedBatch]
    """The last one has the offset. Of a long scan the first and the last ones."""
    scanned_batches: int
    is_found: bool


class StorageInspection(Protocol):
    """The logs of a broker. Every method raises InspectionError."""

    async def partition(self, topic: str, partition: int, first_segment: int | None) -> PartitionStorage:
        """Return the log of a partition. first_segment: the number of the first one; None: the newest ones."""

    async def index(self, topic: str, partition: int, base_offset: int, kind: str, first: int) -> IndexPage:
        """Return entries of an index of a segment. kind: OFFSET, TIME or TRANSACTION."""

    async def batches(self, topic: str, partition: int, base_offset: int, position: int) -> BatchPage:
        """Return batches of a segment, from the one at a position on."""

    async def search(self, topic: str, partition: int, offset: int) -> OffsetSearch:
        """Return the steps of a read that looks for an offset."""
