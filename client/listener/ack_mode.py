"""When a listener container commits the offsets of handled records (the names are Spring Kafka's)."""

from collections.abc import Awaitable, Callable
from enum import Enum


class AckMode(Enum):
    """In every mode an offset is committed only when all earlier records of its partition are handled."""

    RECORD = "record"
    """After each record, before the next one with the same key: the fewest repetitions after a crash."""
    BATCH = "batch"
    """When all records of one poll and partition are handled."""
    TIME = "time"
    """Every `ack_time_ms`."""
    COUNT = "count"
    """Whenever `ack_count` more records are handled."""
    COUNT_TIME = "count_time"
    """Like COUNT or TIME, whichever is first."""
    MANUAL = "manual"
    """The acknowledged records, at the next poll."""
    MANUAL_IMMEDIATE = "manual_immediate"
    """The acknowledged records, at once."""

    @property
    def is_manual(self) -> bool:
        """Whether the handler gets an `Acknowledgment` as its second argument."""
        return self in (AckMode.MANUAL, AckMode.MANUAL_IMMEDIATE)

    @property
    def is_timed(self) -> bool:
        """Whether there is a commit every `ack_time_ms`."""
        return self in (AckMode.TIME, AckMode.COUNT_TIME)

    @property
    def is_counted(self) -> bool:
        """Whether there is a commit every `ack_count` records."""
        return self in (AckMode.COUNT, AckMode.COUNT_TIME)


class Acknowledgment:
    """The handler's acknowledgment of its record, or of its records, in the manual modes.

    The handler may acknowledge after it has returned, and in any order: commits go up to the first record that is not
    acknowledged.
    """

    __slots__ = ("_acknowledged", "is_acknowledged")

    def __init__(self, acknowledged: Callable[[], Awaitable[None]]) -> None:
        self._acknowledged = acknowledged
        self.is_acknowledged = False

    async def acknowledge(self) -> None:
        """Acknowledge the records; a second call does nothing.

        With MANUAL_IMMEDIATE this waits for the commit, and raises CommitFailedError if the partition has moved to
        another member, which reads the records again.
        """
        if not self.is_acknowledged:
            self.is_acknowledged = True
            await self._acknowledged()
