"""The records of one partition that are waiting, being handled, or handled before others that come first.

Items are in the order of the partition. Each is in a lane, by its key: those of a lane are taken one after the other,
those of different lanes at the same time. What may be committed is the offset of the first item that is not done,
however many behind it are: `position`. No I/O, no tasks.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence

from client.consumer.fetched import ConsumerRecord

LaneOf = Callable[[ConsumerRecord], Hashable]


class WorkItem:
    """Records that are handled together: one, or what a batch handler gets."""

    __slots__ = ("is_done", "lane", "records")

    def __init__(self, records: Sequence[ConsumerRecord], lane: Hashable) -> None:
        self.records = records
        self.lane = lane
        self.is_done = False


class PartitionWork:
    """See the module. `lane_of` None: one lane for all."""

    __slots__ = (
        "_boundaries",
        "_lane_of",
        "_lanes",
        "_open",
        "_ready",
        "batch_position",
        "noted_position",
        "position",
        "unfinished",
    )

    def __init__(self, lane_of: LaneOf | None) -> None:
        self._lane_of = lane_of
        # Not done, or behind one that is not. Offsets may go back where the consumer was set back, so items count, not
        # offsets.
        self._open: deque[WorkItem] = deque()
        # The lanes that hold an item, or have one taken; those of them that have an item to take now.
        self._lanes: dict[Hashable, deque[WorkItem]] = {}
        self._ready: deque[Hashable] = deque()
        # The last item of each poll that is not done with.
        self._boundaries: deque[WorkItem] = deque()
        # Records that are not done: what the queue is bounded by.
        self.unfinished = 0
        # The offset behind the last record before which all are done; None as long as nothing is.
        self.position: int | None = None
        # As `position`, but behind whole polls only.
        self.batch_position: int | None = None
        # The `batch_position` of which the committer knows.
        self.noted_position: int | None = None

    @property
    def first_unfinished(self) -> int | None:
        """The offset of the first record that is not done; None where all are."""
        return self._open[0].records[0].offset if self._open else None

    def add(self, records: Sequence[ConsumerRecord], *, as_one: bool = False) -> None:
        """What one poll brought, at least one record; with `as_one` it is one item."""
        if as_one:
            self._append(WorkItem(records, None))
        else:
            for record in records:
                self._append(WorkItem((record,), None if self._lane_of is None else self._lane_of(record)))
        self.unfinished += len(records)
        self._boundaries.append(self._open[-1])

    def _append(self, item: WorkItem) -> None:
        self._open.append(item)
        waiting = self._lanes.get(item.lane)
        if waiting is None:
            self._lanes[item.lane] = deque((item,))
            self._ready.append(item.lane)
        else:
            waiting.append(item)

    def take(self) -> WorkItem | None:
        """The next item whose lane is free; it is not until `release`."""
        return self._lanes[self._ready.popleft()].popleft() if self._ready else None

    def release(self, item: WorkItem) -> None:
        """The next of its lane may be taken, behind the lanes that wait already."""
        if self._lanes[item.lane]:
            self._ready.append(item.lane)
        else:
            del self._lanes[item.lane]

    def finish(self, item: WorkItem) -> None:
        """It is done with. More than once is as good as once."""
        if item.is_done:
            return
        item.is_done = True
        self.unfinished -= len(item.records)
        while self._open and self._open[0].is_done:
            done = self._open.popleft()
            self.position = done.records[-1].offset + 1
            if done is self._boundaries[0]:
                self._boundaries.popleft()
                self.batch_position = self.position
