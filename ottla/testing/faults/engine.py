"""The engine: it injects faults into the brokers of one event loop, and heals them.

A fault ends when its time is over, when it has taken effect as often as it may, or when it is healed. Ending it calls
what its verb returned for that purpose, once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any

from ottla.testing.faults.active_fault import ActiveFault, Heal, count_of
from ottla.testing.faults.counter import Counter, LocalCounter
from ottla.testing.faults.description import Description, Fault
from ottla.testing.faults.errors import UnknownFaultError
from ottla.testing.faults.scene import BrokerScene, ClusterScene
from ottla.testing.faults.verb import Verb
from ottla.testing.faults.verbs import VERBS

logger = logging.getLogger(__name__)


class Engine:
    """The faults of a cluster. All methods must be called in the event loop of its brokers."""

    def __init__(
        self,
        scene: ClusterScene | BrokerScene,
        verbs: Mapping[str, Verb] = VERBS,
        *,
        new_counter: Callable[[int, int | None], Counter] = lambda fault_id, count: LocalCounter(count),
        on_used_up: Callable[[int], None] = lambda fault_id: None,
    ) -> None:
        """scene: what the verbs act on.

        new_counter: makes the counter of a fault, from its id and its count. on_used_up: called with the id of a fault
        whose count is used up, and whose uses have ended.
        """
        self._new_counter = new_counter
        self._on_used_up = on_used_up
        self._scene = scene
        self._verbs = {verb.description: verb for verb in verbs.values()}
        self._ids = itertools.count(1)
        self._active: dict[int, ActiveFault] = {}
        self._heals: dict[int, Heal] = {}
        self._over: dict[int, Callable[[], bool]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._healing: set[asyncio.Task[None]] = set()

    async def apply(
        self, description: Description, fault_id: int | None = None, counter: Counter | None = None
    ) -> dict[str, Any]:
        """Do what a description says; return it as in `active`. Raises FaultError, and what the verb's work raises.

        fault_id, counter: of a fault that several engines have in common.
        """
        verb = self._verbs[type(description)]
        self._drop_ended()
        loop = asyncio.get_running_loop()
        number = next(self._ids) if fault_id is None else fault_id
        counter = counter or self._new_counter(number, count_of(description))
        fault = ActiveFault(number, verb.name, description, loop.time, counter)
        fault.on_over = lambda: self._end_used_up(fault.id)
        applied = await verb.apply(self._scene, description, fault)
        fault.did = applied.did
        fault.is_lasting = applied.heal is not None
        logger.info("fault %d: %s", fault.id, description)
        if applied.heal is not None:
            self._active[fault.id] = fault
            self._heals[fault.id] = self._healing_of(verb, description, applied.heal)
            if applied.is_over is not None:
                self._over[fault.id] = applied.is_over
            if isinstance(description, Fault) and description.for_s is not None:
                self._timers[fault.id] = loop.call_later(description.for_s, self._end_later, fault.id)
            if fault.is_used_up:  # while the verb was at work
                self._end_used_up(fault.id)
        return fault.as_json()

    def _healing_of(self, verb: Verb, description: Description, heal: Heal) -> Heal:
        recover, scene = verb.recover, self._scene
        if recover is None or not isinstance(scene, ClusterScene):
            return heal

        async def heal_and_recover() -> None:
            await heal()
            await recover(scene, description)

        return heal_and_recover

    def active(self) -> list[dict[str, Any]]:
        """Return the faults in effect, the oldest first. See `ActiveFault.as_json`."""
        self._drop_ended()
        return [fault.as_json() for fault in self._active.values()]

    def get(self, fault_id: int) -> dict[str, Any]:
        """Return one fault in effect. Raises UnknownFaultError."""
        self._drop_ended()
        try:
            return self._active[fault_id].as_json()
        except KeyError:
            raise UnknownFaultError(fault_id) from None

    async def heal(self, fault_id: int) -> None:
        """End a fault. Raises UnknownFaultError, and what the verb's work raises."""
        if fault_id not in self._active:
            raise UnknownFaultError(fault_id)
        await self._end(fault_id)

    async def heal_all(self) -> list[int]:
        """End all faults, the newest first, and return their ids.

        Raises ExceptionGroup if faults could not be healed; the others are healed nevertheless.
        """
        ids = list(self._active)
        failures = []
        for fault_id in reversed(ids):
            try:
                await self._end(fault_id)
            except Exception as error:
                failures.append(error)
        while self._healing:  # of faults that were over at the same time
            await asyncio.wait(self._healing)
        if failures:
            raise ExceptionGroup("faults could not be healed", failures)
        return ids

    def forget_all(self) -> None:
        """End all faults without the work of healing: the brokers are about to stop."""
        for fault in self._active.values():
            fault.end()
        for timer in self._timers.values():
            timer.cancel()
        for task in self._healing:
            task.cancel()
        self._active.clear()
        self._heals.clear()
        self._over.clear()
        self._timers.clear()

    def _drop_ended(self) -> None:
        """Forget the faults that something else has ended."""
        for fault_id in [fault_id for fault_id, is_over in self._over.items() if is_over()]:
            self._forget(fault_id)

    def is_waiting(self, fault_id: int) -> bool:
        """Whether a use of a fault in effect has not ended."""
        return fault_id in self._active and self._active[fault_id].is_waiting

    def _end_used_up(self, fault_id: int) -> None:
        self._end_later(fault_id)
        self._on_used_up(fault_id)

    def _end_later(self, fault_id: int) -> None:
        """End a fault whose limit is reached."""
        self._start(self._end(fault_id))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # Not in the context of the broker that has used the fault up: pausing the broker would stop the task.
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._healing.add(task)
        task.add_done_callback(self._healed)

    def _healed(self, task: asyncio.Task[None]) -> None:
        self._healing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a fault could not be healed", exc_info=error)

    async def _end(self, fault_id: int) -> None:
        heal = self._forget(fault_id)
        if heal is not None:
            await heal()

    def _forget(self, fault_id: int) -> Heal | None:
        """Remove a fault; return what heals it, or None if it is removed already."""
        fault = self._active.pop(fault_id, None)
        if fault is None:
            return None  # two limits were reached at the same time
        timer = self._timers.pop(fault_id, None)
        if timer is not None:
            timer.cancel()
        self._over.pop(fault_id, None)
        fault.end()
        logger.info("fault %d (%s) is over", fault_id, fault.verb)
        return self._heals.pop(fault_id)
