"""The state of a follower's fetches of one partition."""

from __future__ import annotations

import asyncio

from client.wire.backoff import Retries
from protocol.sentinels import NO_EPOCH
from replication.follower_session import WantedPartition
from replication.partition import Partition
from storage.log.log import Log

FIRST_RETRY_MS = 20
"""The first delay after an error is short: after an election, other brokers need only moments."""


class FetchState:
    """One partition in one leader epoch: created when the controller names a leader, dropped with the next state."""

    __slots__ = (
        "_idle",
        "_log",
        "_wanted",
        "delayed_until_s",
        "is_followed",
        "is_introduced",
        "is_truncating",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "offset",
        "partition",
        "retries",
        "truncation_epoch",
    )

    def __init__(self, partition: Partition, log: Log, retries: Retries, *, truncates_on_fetch: bool) -> None:
        self.partition = partition
        self._log = log
        self.key = (partition.topic, partition.partition)
        self.leader_epoch = partition.leader_epoch
        self.last_fetched_epoch = log.leader_epochs.latest_epoch
        """Leader epoch of the last record; NO_EPOCH in an empty log."""
        self.is_truncating = not truncates_on_fetch
        """True until the log is known to be a prefix of the leader's, if Fetch does not report divergence."""
        self.truncation_epoch = self.last_fetched_epoch
        """The epoch to ask the leader about while `is_truncating`."""
        self.offset = log.log_end_offset
        if self.last_fetched_epoch == NO_EPOCH and log.log_end_offset > log.high_watermark:
            self.is_truncating = True  # records without epochs: older than leader epochs
        self.lag: int | None = None
        """Records between the log end offset and the leader's high watermark; None before the first answer."""
        self.is_introduced = False
        """True once the leader has answered without an error: the fetcher's session may then take over."""
        self.is_followed = False
        """True once the fetcher's session has taken the partition over."""
        self.retries = retries
        self.delayed_until_s = 0.0
        self._idle: asyncio.Event | None = None
        self._wanted: WantedPartition | None = None

    @property
    def log(self) -> Log:
        """The partition's log. After a wait it may be another object: the log may move to another directory."""
        log = self.partition.log
        if log is not None:  # else its directory has failed, and the operation in progress gets an error
            self._log = log
        return self._log

    @property
    def is_busy(self) -> bool:
        """True while the log changes over several turns of the event loop: answers are dropped meanwhile."""
        return self._idle is not None

    def begin_change(self) -> None:
        """Mark the log as being changed."""
        assert self._idle is None
        self._idle = asyncio.Event()

    def end_change(self) -> None:
        """Mark the log as no longer being changed."""
        assert self._idle is not None
        self._idle.set()
        self._idle = None

    async def until_idle(self) -> None:
        """Return when no task changes the log."""
        while self._idle is not None:
            await self._idle.wait()

    def delay(self, now_s: float) -> None:
        """Count an error, and delay the next request."""
        self.delayed_until_s = now_s + self.retries.next_delay_s()
        self.is_introduced = self.is_followed = False

    def wanted(self, *, compare: bool) -> WantedPartition:
        """Return what to request from the leader. compare: request the diverging epoch, too."""
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
        """Continue at the new end of the log: its offset or its epoch has changed."""
        self.offset = self.log.log_end_offset
        self.last_fetched_epoch = self.log.leader_epochs.latest_epoch
        self._wanted = None
