"""Runs the steps of classic groups and carries out their decisions.

    with groups.step(group) as step:
        step.join(joining, waiter)

At the end of the block, timers are set, requests are answered, and the group's record is written. When the record is
committed or has failed, the next step handles the outcome, and its decision is carried out in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from broker.coordinator.classic.decision import SESSION, Write
from broker.coordinator.classic.group import Group
from broker.coordinator.classic.membership import Membership
from broker.coordinator.group_timers import CallLater, TimerKey, change_timers
from broker.coordinator.group_watchers import GroupWatchers
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode


class ClassicGroups:
    """See the module docstring."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], str],
        call_later: CallLater,
        store: Callable[[Group, Mapping[str, bytes], Callable[[ErrorCode], None]], object],
    ) -> None:
        """store: see `GroupStore.store_group`."""
        self.watchers = GroupWatchers()
        self._config = config
        self._now_ms = now_ms
        self._new_uuid = new_uuid
        self._call_later = call_later
        self._store = store

    @contextmanager
    def step(self, group: Group) -> Iterator[Membership]:
        """Return a step of a group as a context manager, which carries out the decision at the end of the block."""
        step = Membership(group, self._config, self._now_ms, self._new_uuid)
        yield step
        self._carry_out(step)
        if self.watchers:
            self.watchers.tell(group)

    def _carry_out(self, step: Membership) -> None:
        group, decision = step.group, step.take_decision()
        if decision.timers:
            change_timers(group.timers, decision.timers, self._call_later, partial(self._expired, group))
        for waiter, response in decision.answers:
            if not waiter.done():
                waiter.set_result(response)
        if decision.write is not None:
            self._store(group, decision.write.assignments, partial(self._written, group, decision.write))

    def _written(self, group: Group, write: Write, error: ErrorCode) -> None:
        with self.step(group) as step:
            step.written(write, error)

    def _expired(self, group: Group, key: TimerKey) -> None:
        del group.timers[key]
        kind, member_id = key
        if self.watchers and kind == SESSION:
            self.watchers.tell(group, member_id)
        with self.step(group) as step:
            step.expired(*key)
