"""Fetch from one leader: the partitions that a follower has from one leader, or a share of them.

Two tasks run, each with its own connection. The *session* long-polls for all healthy partitions, in one incremental
fetch session. A leader answers one request of a connection at a time. A new leader epoch, a new topic or an error would
have to wait for the end of that poll, and so would producers that wait for the partition to be committed. Therefore the
*introduction* requests such partitions at once. It repeats the request until the session has taken them over, with
growing pauses after errors. If both tasks request a partition, the first answer counts; the other no longer matches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from client.errors import KafkaError
from client.wire.backoff import Backoff, Retries
from protocol.messages.fetch import PartitionData
from replication.fetch_answers import FetchAnswers, Outcome
from replication.fetch_settings import FetchSettings
from replication.fetch_state import FetchState
from replication.follower_session import WantedPartition
from replication.leader_endpoint import LeaderEndpoint
from replication.partition import Partition
from replication.replication_quota import ReplicationQuota
from storage.log.leader_epoch_cache import UNDEFINED_EPOCH

logger = logging.getLogger(__name__)

Key = tuple[str, int]

INTRODUCTION_WAIT_MS = 50
"""How long the leader may hold a request for partitions that only wait for the session to take them over."""

THROTTLED_PAUSE_S = 0.1
BUSY_WAIT_S = 0.02

LOOK_AGAIN_S = 1.0
"""At this interval, and after an empty poll, the session looks at all partitions, not only at the answered ones."""


class Fetcher:
    """One of the `num.replica.fetchers` fetchers for one leader. `states`: its partitions."""

    def __init__(
        self,
        leader_id: int,
        session: LeaderEndpoint,
        introduction: LeaderEndpoint,
        answers: FetchAnswers,
        *,
        settings: FetchSettings,
        quota: ReplicationQuota,
        truncates_on_fetch: bool,
        now_s: Callable[[], float],
        on_failed: Callable[[Key], None],
        backoff: Backoff,
    ) -> None:
        """on_failed: called with partitions that are not fetched until the controller sends a new state."""
        self.leader_id = leader_id
        self.states: dict[Key, FetchState] = {}
        self._session = session
        self._introduction = introduction
        self._answers = answers
        self._settings = settings
        self._quota = quota
        self._truncates_on_fetch = truncates_on_fetch
        self._now_s = now_s
        self._on_failed = on_failed
        self._backoff = backoff
        self._session_wants: dict[Key, WantedPartition] = {}
        self._look_at_all_s: float | None = None
        """When the session looks at all partitions again; None: at once."""
        self._to_introduce: dict[Key, FetchState] = {}
        self._news = asyncio.Event()  # wakes the introduction
        self._taken_over = asyncio.Event()  # wakes the session

    def add(self, partition: Partition) -> None:
        """Fetch a partition from now on, in its current leader epoch."""
        assert partition.log is not None
        retries = Retries(self._backoff)
        state = FetchState(partition, partition.log, retries, truncates_on_fetch=self._truncates_on_fetch)
        self.states[state.key] = state
        self._introduce_again(state)

    def remove(self, key: Key) -> FetchState | None:
        """Stop fetching a partition. If its log is being changed, the returned state is busy until that ends."""
        self._look_at_all_s = None
        return self.states.pop(key, None)

    async def run(self) -> None:
        """Fetch, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._run_session())
                tasks.create_task(self._run_introduction())
        finally:
            self._session.close()
            self._introduction.close()

    # -- the session -------------------------------------------------------------------------------------------------

    async def _run_session(self) -> None:
        retries = Retries(self._backoff)
        answers: dict[Key, PartitionData] = {}
        while True:
            wanted = self._wanted_by_session(answers)
            if not wanted:
                self._taken_over.clear()
                is_throttled = any(state.is_introduced for state in self.states.values())
                await _wait(self._taken_over, THROTTLED_PAUSE_S if is_throttled else None)
                continue
            try:
                answers = await self._session.fetch(wanted, self._settings.replica_fetch_wait_max_ms)
            except KafkaError as error:
                answers = {}
                level = retries.log_level(logging.WARNING)
                logger.log(level, "fetching from broker %d fails: %s", self.leader_id, error)
                await retries.wait()
                continue
            retries.succeeded()
            await self._take(wanted, answers, self._session)

    def _wanted_by_session(self, answered: Collection[Key]) -> dict[Key, WantedPartition]:
        """Return what to request after these answers: few of thousands of partitions have made progress."""
        now_s = self._now_s()
        due_s = self._look_at_all_s
        moved = self._wanted(self.states[key] for key in answered if key in self.states)
        is_due = due_s is None or now_s >= due_s or self._quota.is_exceeded
        if moved and len(moved) == len(answered) and not is_due:
            self._session_wants = self._session_wants | moved  # a new dict: the old one is what the leader knows
            return self._session_wants
        introduced = [state for state in self.states.values() if state.is_introduced]
        self._session_wants = self._wanted(introduced)
        for key in self._session_wants:
            self.states[key].is_followed = True
        is_complete = len(self._session_wants) == len(introduced)  # none is busy or throttled
        self._look_at_all_s = now_s + LOOK_AGAIN_S if is_complete else None
        return self._session_wants

    def _wanted(self, states: Iterable[FetchState]) -> dict[Key, WantedPartition]:
        compare = self._truncates_on_fetch
        is_exceeded = self._quota.is_exceeded
        return {
            state.key: state.wanted(compare=compare)
            for state in states
            if not state.is_busy and not (is_exceeded and self._is_throttled(state))
        }

    def _is_throttled(self, state: FetchState) -> bool:
        """Throttle only a replica that is behind: the others would leave the ISR."""
        return state.lag != 0 and self._quota.applies_to(state.partition)

    # -- the introduction --------------------------------------------------------------------------------------------

    def _introduce_again(self, state: FetchState) -> None:
        self._to_introduce[state.key] = state
        self._news.set()

    async def _run_introduction(self) -> None:
        while True:
            self._news.clear()
            self._to_introduce = {
                key: state
                for key, state in self._to_introduce.items()
                if self.states.get(key) is state and not state.is_followed
            }
            now_s = self._now_s()
            due = [one for one in self._to_introduce.values() if one.delayed_until_s <= now_s and not one.is_busy]
            ready = []
            for state in due:
                if self._answers.can_append(state):
                    ready.append(state)
                else:
                    self._delay(state)
            if not ready:
                delays = [one.delayed_until_s - now_s for one in self._to_introduce.values()]
                await _wait(self._news, max(min(delays), BUSY_WAIT_S) if delays else None)
                continue
            try:
                await self._introduce(ready)
            except KafkaError as error:
                level = logging.WARNING if all(state.retries.failures == 0 for state in ready) else logging.DEBUG
                logger.log(level, "fetching from broker %d fails: %s", self.leader_id, error)
                for state in ready:
                    self._delay(state)

    async def _introduce(self, ready: list[FetchState]) -> None:
        truncating = [state for state in ready if state.is_truncating]
        if truncating:
            await self._truncate(truncating)
        fetching = [state for state in ready if not state.is_truncating and self._is_current(state)]
        wanted = self._wanted(fetching)
        if not wanted:
            if fetching:
                await asyncio.sleep(THROTTLED_PAUSE_S)
            return
        is_waiting = all(self.states[key].is_introduced for key in wanted)
        wait_ms = min(INTRODUCTION_WAIT_MS, self._settings.replica_fetch_wait_max_ms) if is_waiting else 0
        answers = await self._introduction.fetch(wanted, wait_ms)
        await self._take(wanted, answers, self._introduction)

    async def _truncate(self, states: list[FetchState]) -> None:
        """Ask where the leader's epochs end, and truncate the logs to that. Raises KafkaError."""
        asked = [
            (state.key, state.leader_epoch, state.truncation_epoch)
            for state in states
            if state.truncation_epoch != UNDEFINED_EPOCH
        ]
        ends = await self._introduction.epoch_ends(asked) if asked else {}
        for state in states:
            if not self._is_current(state) or state.is_busy:
                continue
            has_epochs = state.truncation_epoch != UNDEFINED_EPOCH
            if has_epochs and state.key not in ends:
                self._delay(state)
                continue
            outcome = await self._answers.truncate(state, ends.get(state.key))
            self._finish(state, outcome)

    # -- both --------------------------------------------------------------------------------------------------------

    def _is_current(self, state: FetchState) -> bool:
        return self.states.get(state.key) is state

    async def _take(
        self, wanted: dict[Key, WantedPartition], answers: dict[Key, PartitionData], endpoint: LeaderEndpoint
    ) -> None:
        """Process the answers to a request for `wanted`."""
        if endpoint is not self._session:
            self._look_at_all_s = None
        for key, data in answers.items():
            state, asked = self.states.get(key), wanted.get(key)
            if state is None or asked is None or state.is_busy or state.is_truncating:
                continue
            if (state.offset, state.leader_epoch) != (asked.offset, asked.leader_epoch):
                continue

            def is_current(state: FetchState = state) -> bool:
                return self._is_current(state)

            outcome = await self._answers.take(state, data, endpoint, is_current)
            self._finish(state, outcome)

    def _finish(self, state: FetchState, outcome: Outcome) -> None:
        if not self._is_current(state):
            return
        if outcome is Outcome.DONE:
            state.retries.succeeded()
            if not state.is_introduced and not state.is_truncating:
                state.is_introduced = True
                self._look_at_all_s = None
                self._taken_over.set()
        elif outcome is Outcome.RETRY:
            self._delay(state)
        else:
            del self.states[state.key]
            self._look_at_all_s = None
            self._on_failed(state.key)

    def _delay(self, state: FetchState) -> None:
        if self._is_current(state):
            self._look_at_all_s = None
            state.delay(self._now_s())
            self._introduce_again(state)


async def _wait(event: asyncio.Event, timeout_s: float | None) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
