"""Where a reader stands in each of its partitions."""

import logging
from collections.abc import Iterator
from typing import Literal

from client.consumer.fetched import ConsumerRecord, FetchedBatches
from client.consumer.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from client.consumer.read_epochs import UNKNOWN_EPOCH, ReadEpochs
from client.errors import LogTruncationError, NoOffsetError, error_for
from client.options import refuse
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class Timestamp(int):
    """A position by time: the first record at or after so many ms since the epoch."""


Position = int | Timestamp | Literal["beginning", "end"]
"""Where to read from: an offset, a `Timestamp`, the log start offset, or the end."""


class PartitionState:
    """One assigned partition.

    Invariant: `position` <= `fetch_offset`; what lies between is fetched and waits to be handed out.
    `fetch_offset` is None while `lookup` (a time, or EARLIEST, LATEST) has yet to be turned into an offset.
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

    def __init__(self, partition: TopicPartition, position: Position, leader_epoch: int = UNKNOWN_EPOCH) -> None:
        """leader_epoch: that of the record before an offset, where it is known."""
        self.partition = partition
        self.epochs = ReadEpochs()
        # How long a leader is looked for that has been elected since the last record was written.
        self.newer_leader_until: float | None = None
        # Of the topic that the position is one of, once it was asked for (brokers from 2.8 on).
        self.topic_id: bytes | None = None
        # Nothing is fetched from here on.
        self.stop_offset: int | None = None
        self.position: int | None = None
        self.fetch_offset: int | None = None
        self.lookup: int | None = None
        # Counts seeks: what was asked for before one is thrown away when it comes.
        self.generation = 0
        # Bytes fetched and not handed out.
        self.buffered = 0
        self.paused = False
        # What was fetched when it was paused.
        self.held: list[Chunk] = []
        self.retry_at = 0.0
        # As of the last answer, -1 before the first.
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        # A follower that the leader has named to fetch from, for a while (KIP-392).
        self.read_replica: int | None = None
        self.read_replica_until = 0.0
        self.seek(position, leader_epoch)

    @property
    def is_complete(self) -> bool:
        """Whether all is fetched up to `stop_offset`."""
        return self.stop_offset is not None and self.fetch_offset is not None and self.fetch_offset >= self.stop_offset

    def seek(self, position: Position, leader_epoch: int = UNKNOWN_EPOCH) -> None:
        """Go on from another place. Raises InvalidOptionError."""
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
        """Compare no more with what the leader has."""
        self.epochs.begin(0, UNKNOWN_EPOCH)
        self.newer_leader_until = None

    def found(self, offset: int) -> None:
        """The lookup gave an offset; -1 means that no record is as late, which is the end."""
        if offset < 0 and self.lookup != LATEST:
            self.lookup = LATEST if self.lookup != MAX_TIMESTAMP else EARLIEST
            return
        self.lookup = None
        self.position = self.fetch_offset = max(offset, 0)

    def reset(self, policy: int | None) -> None:
        """The offset is outside the log: start over as the policy says. Raises OffsetOutOfRangeError for
        "none".
        """
        if policy is None:
            raise error_for(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {self.fetch_offset}", context=str(self.partition))
        self._start_over(policy)

    def made_anew(self, policy: int | None) -> None:
        """The topic is another one of the same name: start over as the policy says.

        Raises LogTruncationError for "none"; after that the offset is tried in the new one.
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
        """The leader's log parts from what was read: its `epoch`, the last that both know, ends at `end_offset`.

        Goes back to there, whatever the policy is (KIP-320). Raises LogTruncationError for "none".
        """
        position, fetched = self.position, self.fetch_offset
        assert position is not None
        assert fetched is not None
        if end_offset >= fetched:
            self.forget_epochs()  # it parts from what was read somewhere before: nobody knows where
            return
        gone = f"{self.partition}: the log was cut off at offset {end_offset}, behind which records had been fetched"
        if position <= end_offset:
            logger.warning("%s; none had been handed out", gone)
            self.seek(position, self.epochs.before(position))
            return
        if policy is None:
            raise LogTruncationError(f"{gone} and handed out up to offset {position}", end_offset)
        logger.warning("%s and handed out up to offset %d: reading goes on from there", gone, position)
        self.seek(end_offset, epoch)


class Chunk:
    """What one answer brought of a partition, as far as it is not handed out."""

    __slots__ = ("batches", "end", "generation", "records", "size_bytes", "state")

    def __init__(self, state: PartitionState, batches: FetchedBatches, records: Iterator[ConsumerRecord]) -> None:
        self.state = state
        # The state's at the time: after a seek this is for nobody.
        self.generation = state.generation
        self.batches = batches
        # The offset behind its last batch.
        self.end = batches.next_offset
        self.records = records
        # Counted as buffered.
        self.size_bytes = batches.size_bytes


def known_position(state: PartitionState) -> int:
    """The offset of the next record. Raises NoOffsetError while it is not looked up."""
    if state.position is None:
        raise NoOffsetError(f"{state.partition}: the position is not known yet")
    return state.position
