"""The records of one partition that wait, are being handled, or are handled while earlier records are not.

Items are in the order of the partition. Each item is in a lane, according to its key: items of one lane are handled one
after the other, items of different lanes at the same time. `position` is the offset to commit, that of the first item
that is not handled, even if later items are. No I/O, no tasks.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence

from client.consumer.fetched import ConsumerRecord

LaneOf = Callable[[ConsumerRecord], Hashable]


class WorkItem:
    """Records that are handled together: one record, or the list for a batch handler."""

    __slots__ = ("is_done", "lane", "records")

    def __init__(self, records: Sequence[ConsumerRecord], lane: Hashable) -> None:
        self.records = records
        self.lane = lane
        self.is_done = False


class PartitionWork:
    """See the module's docstring. `lane_of` None: one lane for all."""

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
        # Items that are not handled or follow one that is not. Counted as items: after a seek to an earlier offset, the
        # same offset is here twice.
        self._open: deque[WorkItem] = deque()
        # The lanes with waiting items or with an item taken; those of them with an item that can be taken now.
        self._lanes: dict[Hashable, deque[WorkItem]] = {}
        self._ready: deque[Hashable] = deque()
        # The last item of each poll that is not completely handled.
        self._boundaries: deque[WorkItem] = deque()
        # Records that are not handled; the queue size is the limit of these.
        self.unfinished = 0
        # The offset after the last record before which all records are handled; None until there is one.
        self.position: int | None = None
        # Like `position`, but only after whole polls.
        self.batch_position: int | None = None
        # The last `batch_position` that the committer has seen.
        self.noted_position: int | None = None

    @property
    def first_unfinished(self) -> int | None:
        """The offset of the first record that is not handled; None if all are."""
        return self._open[0].records[0].offset if self._open else None

    def add(self, records: Sequence[ConsumerRecord], *, as_one: bool = False) -> None:
        """Add the records of one poll, at least one; with `as_one` as a single item."""
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
        """Take the next item whose lane is free. Its lane is not free until `release`."""
        return self._lanes[self._ready.popleft()].popleft() if self._ready else None

    def release(self, item: WorkItem) -> None:
        """Free the lane of an item; its next item may be taken, after the lanes that are waiting already."""
        if self._lanes[item.lane]:
            self._ready.append(item.lane)
        else:
            del self._lanes[item.lane]

    def finish(self, item: WorkItem) -> None:
        """Note that an item is handled; a second call does nothing."""
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
