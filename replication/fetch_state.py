"""Where a follower stands with one partition that it fetches."""

from __future__ import annotations

import asyncio

from replication.follower_session import WantedPartition
from replication.partition import NO_EPOCH, Partition
from storage.log.log import Log

FIRST_RETRY_S = 0.02


class FetchState:
    """One partition in one leader epoch: made when the controller names the leader, gone with the next word of it."""

    __slots__ = (
        "_idle",
        "_log",
        "_wanted",
        "delayed_until_s",
        "failures",
        "is_followed",
        "is_introduced",
        "is_truncating",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "offset",
        "partition",
        "truncation_epoch",
    )

    def __init__(self, partition: Partition, log: Log, *, truncates_on_fetch: bool) -> None:
        self.partition = partition
        self._log = log
        self.key = (partition.topic, partition.partition)
        self.leader_epoch = partition.leader_epoch
        self.last_fetched_epoch = log.leader_epochs.latest_epoch
        """Of our last record; NO_EPOCH in an empty log."""
        self.is_truncating = not truncates_on_fetch
        """True until it is known that our log is a beginning of the leader's, where Fetch does not tell that."""
        self.truncation_epoch = self.last_fetched_epoch
        """The epoch that the leader is asked about then."""
        self.offset = log.log_end_offset
        if self.last_fetched_epoch == NO_EPOCH and log.log_end_offset > log.high_watermark:
            self.is_truncating = True  # records without epochs: from before those were kept
        self.lag: int | None = None
        """Records between our end and the leader's high watermark; None before the first answer."""
        self.is_introduced = False
        """True once the leader has answered without an error: from then on the fetcher's session may take it over."""
        self.is_followed = False
        """True once the session has."""
        self.failures = 0
        self.delayed_until_s = 0.0
        self._idle: asyncio.Event | None = None
        self._wanted: WantedPartition | None = None

    @property
    def log(self) -> Log:
        """The partition's log: another one after a wait, perhaps, since it may move to another directory."""
        log = self.partition.log
        if log is not None:  # else its directory has failed, and whoever is in the midst of something finds that out
            self._log = log
        return self._log

    @property
    def is_busy(self) -> bool:
        """True while its log is being changed over several turns of the event loop: answers are dropped then."""
        return self._idle is not None

    def begin_change(self) -> None:
        """Its log is going to be changed."""
        assert self._idle is None
        self._idle = asyncio.Event()

    def end_change(self) -> None:
        """Its log is what it is going to be."""
        assert self._idle is not None
        self._idle.set()
        self._idle = None

    async def until_idle(self) -> None:
        """Return when nobody changes its log."""
        while self._idle is not None:
            await self._idle.wait()

    def delay(self, now_s: float, longest_s: float) -> None:
        """Something went wrong: a pause that doubles each time. After an election others need moments only."""
        pause_s = min(FIRST_RETRY_S * 2 ** min(self.failures, 16), longest_s)
        self.failures += 1
        self.delayed_until_s = now_s + pause_s
        self.is_introduced = self.is_followed = False

    def wanted(self, *, compare: bool) -> WantedPartition:
        """What to ask the leader for. compare: have it say where the two logs diverge."""
        wanted = self._wanted
        topic_id, log_start_offset = self.partition.topic_id, self.log.log_start_offset
        if wanted is None or wanted.log_start_offset != log_start_offset or wanted.topic_id != topic_id:
            wanted = self._wanted = WantedPartition(
                topic_id,
                self.offset,
                self.leader_epoch,
                self.last_fetched_epoch if compare else NO_EPOCH,
                log_start_offset,
            )
        return wanted

    def moved(self) -> None:
        """The log has another end, or its end another epoch: go on from there."""
        self.offset = self.log.log_end_offset
        self.last_fetched_epoch = self.log.leader_epochs.latest_epoch
        self._wanted = None
