"""The state of a reader in each of its partitions."""

import logging
from collections.abc import Iterator
from typing import Literal

from client.consumer.fetched import ConsumerRecord, FetchedBatches
from client.consumer.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from client.consumer.read_epochs import ReadEpochs
from client.errors import LogTruncationError, NoOffsetError, error_for
from client.options import refuse
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.sentinels import NO_EPOCH

logger = logging.getLogger(__name__)


class Timestamp(int):
    """A position by time: the first record at or after this time, in ms since the epoch."""


Position = int | Timestamp | Literal["beginning", "end"]
"""Where to start reading: an offset, a `Timestamp`, the log start offset ("beginning") or the end."""


class PartitionState:
    """One assigned partition.

    Invariant: `position` <= `fetch_offset`; the records between are fetched and not yet returned to the caller.
    `fetch_offset` is None until the offset of `lookup` (a time, EARLIEST or LATEST) is known.
    """

    __slots__ = (
        "buffered",
        "epochs",
        "fetch_offset",
        "generation",
        "held",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "lookup",
        "newer_leader_until",
        "partition",
        "paused",
        "position",
        "read_replica",
        "read_replica_until",
        "retry_at",
        "stop_offset",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition, position: Position, leader_epoch: int = NO_EPOCH) -> None:
        """leader_epoch: the epoch of the record before the offset, -1 if unknown."""
        self.partition = partition
        self.epochs = ReadEpochs()
        # Until when to wait for metadata with a leader that is as new as the last record that was read; a loop time.
        self.newer_leader_until: float | None = None
        # The topic id of the position, known after the first Fetch (brokers from 2.8 on).
        self.topic_id: bytes | None = None
        # Fetch no record at or after this offset.
        self.stop_offset: int | None = None
        self.position: int | None = None
        self.fetch_offset: int | None = None
        self.lookup: int | None = None
        # Counts seeks: responses to requests from before a seek are dropped.
        self.generation = 0
        # Bytes that are fetched and not yet returned.
        self.buffered = 0
        self.paused = False
        # The fetched chunks of a paused partition.
        self.held: list[Chunk] = []
        self.retry_at = 0.0
        # From the last Fetch response, -1 before the first.
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        # The preferred read replica, and until which loop time to use it (KIP-392).
        self.read_replica: int | None = None
        self.read_replica_until = 0.0
        self.seek(position, leader_epoch)

    @property
    def is_complete(self) -> bool:
        """Whether all records before `stop_offset` are fetched."""
        return self.stop_offset is not None and self.fetch_offset is not None and self.fetch_offset >= self.stop_offset

    def seek(self, position: Position, leader_epoch: int = NO_EPOCH) -> None:
        """Continue at another position. Raises InvalidOptionError."""
        self._forget()
        self.retry_at = 0.0
        self.lookup = None
        if position == "beginning":
            self.lookup = EARLIEST
        elif position == "end":
            self.lookup = LATEST
        elif isinstance(position, bool) or not isinstance(position, int) or position < 0:
            raise refuse("position", position, 'must be an offset, a Timestamp, "beginning" or "end"')
        elif isinstance(position, Timestamp):
            self.lookup = int(position)
        else:
            self.position = self.fetch_offset = position
            self.epochs.begin(position, leader_epoch)

    def _forget(self) -> None:
        self.generation += 1
        self.buffered = 0
        self.held.clear()
        self.position = self.fetch_offset = self.topic_id = None
        self.forget_epochs()

    def forget_epochs(self) -> None:
        """Stop comparing the epochs with the leader's log."""
        self.epochs.begin(0, NO_EPOCH)
        self.newer_leader_until = None

    def found(self, offset: int) -> None:
        """Take over the result of the lookup. -1: all records are older; then look up the end."""
        if offset < 0 and self.lookup != LATEST:
            self.lookup = LATEST if self.lookup != MAX_TIMESTAMP else EARLIEST
            return
        self.lookup = None
        self.position = self.fetch_offset = max(offset, 0)

    def reset(self, policy: int | None) -> None:
        """Look up `policy`, a timestamp, because the offset is out of range.

        Raises OffsetOutOfRangeError if the policy is None.
        """
        if policy is None:
            raise error_for(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {self.fetch_offset}", context=str(self.partition))
        self._start_over(policy)

    def recreated(self, policy: int | None) -> None:
        """Look up `policy`, a timestamp, because the topic was deleted and recreated.

        Raises LogTruncationError if the policy is None; then reading continues at the same offset of the new topic.
        """
        self.topic_id = None
        what = f"{self.partition}: the topic was deleted and recreated; it had been read up to offset {self.position}"
        if policy is None:
            self.forget_epochs()
            raise LogTruncationError(what, 0)
        logger.warning("%s: starting over", what)
        self._start_over(policy)

    def _start_over(self, policy: int) -> None:
        self._forget()
        self.lookup = policy

    def truncated(self, epoch: int, end_offset: int, policy: int | None) -> None:
        """Go back to `end_offset`, where the leader's log diverges from the records that were read (KIP-320).

        `epoch` is the last epoch that both have; in the leader's log it ends at `end_offset`. Raises LogTruncationError
        if the policy is None and records after `end_offset` were returned to the caller.
        """
        position, fetched = self.position, self.fetch_offset
        assert position is not None
        assert fetched is not None
        if end_offset >= fetched:
            self.forget_epochs()  # it diverges somewhere before the fetched records: unknown where
            return
        truncated = f"{self.partition}: the log was truncated at offset {end_offset}; records after it had been fetched"
        if position <= end_offset:
            logger.warning("%s, but not returned", truncated)
            self.seek(position, self.epochs.before(position))
            return
        if policy is None:
            raise LogTruncationError(f"{truncated} and returned up to offset {position}", end_offset)
        logger.warning("%s and returned up to offset %d; continuing at offset %d", truncated, position, end_offset)
        self.seek(end_offset, epoch)


class Chunk:
    """The records of a partition from one Fetch response that are not yet returned to the caller."""

    __slots__ = ("batches", "end", "generation", "records", "size_bytes", "state")

    def __init__(self, state: PartitionState, batches: FetchedBatches, records: Iterator[ConsumerRecord]) -> None:
        self.state = state
        # The generation of the state at the time: after a seek the chunk is dropped.
        self.generation = state.generation
        self.batches = batches
        # The offset after the last batch.
        self.end = batches.next_offset
        self.records = records
        # Its part of `PartitionState.buffered`.
        self.size_bytes = batches.size_bytes


def known_position(state: PartitionState) -> int:
    """Return the offset of the next record. Raises NoOffsetError before the lookup has ended."""
    if state.position is None:
        raise NoOffsetError(f"{state.partition}: the position is not known yet")
    return state.position
