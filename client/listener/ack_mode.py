"""When a listener container commits what has been handled (the names are Spring Kafka's)."""

from collections.abc import Awaitable, Callable
from enum import Enum


class AckMode(Enum):
    """In every mode an offset is committed only when all records of its partition before it are done with."""

    RECORD = "record"
    """After each record, before the next one of its order: after a crash the fewest come again."""
    BATCH = "batch"
    """When all records that came together, by one poll and of one partition, are handled."""
    TIME = "time"
    """Every `ack_time_ms`."""
    COUNT = "count"
    """Whenever `ack_count` more records are handled."""
    COUNT_TIME = "count_time"
    """As COUNT or TIME, whichever comes first."""
    MANUAL = "manual"
    """What the handler has acknowledged, with the next poll."""
    MANUAL_IMMEDIATE = "manual_immediate"
    """What the handler has acknowledged, at once."""

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
    """What a handler says of its record, or its records, in the manual modes.

    It may do so later than it returns, and in any order: commits go up to the first record that is not acknowledged.
    """

    __slots__ = ("_acknowledged", "is_acknowledged")

    def __init__(self, acknowledged: Callable[[], Awaitable[None]]) -> None:
        self._acknowledged = acknowledged
        self.is_acknowledged = False

    async def acknowledge(self) -> None:
        """These are done with; twice is as good as once.

        With MANUAL_IMMEDIATE returns when that is committed, and raises CommitFailedError where the partition has gone
        to another member: there they come again.
        """
        if not self.is_acknowledged:
            self.is_acknowledged = True
            await self._acknowledged()
