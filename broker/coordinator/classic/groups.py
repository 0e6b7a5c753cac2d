"""Runs the steps of classic groups and carries out their decisions.

    with groups.step(group) as step:
        step.join(joining, waiter)

At the end of the block, timers are set, requests are answered, and the group's record is written. Further steps follow,
whose decisions are carried out in the same way: one as soon as the record is in the log, if it replaces a static
member, and one when the record is committed or has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.coordinator.classic.decision import SESSION, Replacement, Write
from broker.coordinator.classic.group import Group
from broker.coordinator.classic.membership import Membership
from broker.coordinator.group_timers import CallLater, TimerKey, change_timers
from broker.coordinator.group_watchers import GroupWatchers
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode


class Store(Protocol):
    """See `GroupStore.store_group`."""

    def __call__(
        self,
        group_id: str,
        record: bytes,
        *,
        in_log: Callable[[], None] | None,
        finish: Callable[[ErrorCode], None],
    ) -> object:
        """Append a group's record."""


class _Step:
    """Carries out the decision of a step when its block ends without an exception."""

    __slots__ = ("_carry_out", "_step")

    def __init__(self, step: Membership, carry_out: Callable[[Membership], None]) -> None:
        self._step = step
        self._carry_out = carry_out

    def __enter__(self) -> Membership:
        return self._step

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._carry_out(self._step)


class ClassicGroups:
    """See the module docstring."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], str],
        call_later: CallLater,
        store: Store,
    ) -> None:
        self.watchers = GroupWatchers()
        self._config = config
        self._now_ms = now_ms
        self._new_uuid = new_uuid
        self._call_later = call_later
        self._store = store

    def step(self, group: Group) -> _Step:
        """Return a step of a group as a context manager, which carries out the decision at the end of the block."""
        return _Step(Membership(group, self._config, self._now_ms, self._new_uuid), self._carry_out)

    def _carry_out(self, step: Membership) -> None:
        group, decision = step.group, step.decision
        if decision.timers:
            change_timers(group.timers, decision.timers, self._call_later, partial(self._expired, group))
        for waiter, response in decision.answers:
            if not waiter.done():
                waiter.set_result(response)
        write = decision.write
        if write is not None:
            replacement = write.replacement
            self._store(
                group.group_id,
                write.record,
                in_log=None if replacement is None else partial(self._replace, group, replacement),
                finish=partial(self._written, group, write),
            )
        if self.watchers:
            self.watchers.tell(group)

    def _replace(self, group: Group, replacement: Replacement) -> None:
        with self.step(group) as step:
            step.replace(replacement)

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
