"""A cluster whose brokers are processes, for verbs; and the verbs for it.

The verbs that act within brokers are applied in each of their processes. The cluster keeps these faults, so that a
broker that starts later has them, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.testing.faults.active_fault import ActiveFault, count_of
from ottla.testing.faults.description import Description, Fault
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.options import to_json
from ottla.testing.faults.scene import ClusterScene
from ottla.testing.faults.verb import Applied, Verb
from ottla.testing.faults.verbs import VERBS
from ottla.testing.member import MemberState
from ottla.testing.processes.process_member import ProcessMember
from ottla.testing.processes.remote_fault import RemoteFault

_ALIVE = (MemberState.STARTING, MemberState.RUNNING, MemberState.PAUSED, MemberState.STOPPING)


class ProcessScene(ClusterScene):
    """The brokers of a cluster of processes."""

    def __init__(self, members: Sequence[ProcessMember], directory: Path) -> None:
        """directory: shared by the brokers of the cluster."""
        self.members: Mapping[int, ProcessMember] = {member.id: member for member in members}
        self._directory = directory
        self._faults: dict[int, tuple[RemoteFault, ActiveFault]] = {}
        self._checks: set[asyncio.Task[None]] = set()
        for member in members:
            member.child.handle = self._do
            member.on_ended = self._check_all

    def process(self, broker_id: int) -> ProcessMember:
        """Return a broker by its id. Raises FaultError for an unknown one."""
        self.member(broker_id)
        return self.members[broker_id]

    async def ask(self, broker_id: int, operation: str, *arguments: Any) -> Any:
        """See `ClusterScene`."""
        return await self.process(broker_id).ask(do="operation", name=operation, arguments=arguments)

    async def requests_seen(self, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
        """See `ClusterScene`. Each broker has its own numbers; the requests of one that was restarted are forgotten."""
        found: list[dict[str, Any]] = []
        for member in self.members.values():
            if member.state is MemberState.RUNNING:
                found += await member.ask(do="requests", chosen=dict(chosen))
        return sorted(found, key=lambda one: (one["received_ms"], one["broker"], one["number"]))

    # -- faults within brokers ---------------------------------------------------------------------------------------

    async def inject(self, verb: Verb, description: Description, fault: ActiveFault) -> Applied:
        """Apply a fault within the brokers that are meant. Raises FaultError."""
        assert verb.targets is not None
        remote = self._described(verb, description, fault)
        self._faults[fault.id] = (remote, fault)
        fault.begin_use()  # until no broker has a use that waits: see `_check_over`
        try:
            answers = await asyncio.gather(*(self._apply(remote, one) for one in remote.targets))
        except BaseException:
            await self._remove(fault.id)
            raise
        told = [answer for answer in answers if answer is not None]
        if not isinstance(description, Fault):  # it is over
            await self._remove(fault.id)
            return Applied(_merged([one["did"] for one in told]), None)

        async def heal() -> None:
            await self._remove(fault.id)

        self._check_over(fault.id)
        return Applied(_merged([one["did"] for one in told]), heal)

    def _described(self, verb: Verb, description: Description, fault: ActiveFault) -> RemoteFault:
        assert verb.targets is not None
        unlimited = dataclasses.replace(description, for_s=None) if isinstance(description, Fault) else description
        return RemoteFault(
            id=fault.id,
            description=to_json(verb.name, unlimited),
            targets=verb.targets(self, description),
            brokers=list(self.members),
            uses=str(uses_file(self._directory, fault.id)),
            count=count_of(description),
        )

    async def _apply(self, remote: RemoteFault, broker_id: int) -> dict[str, Any] | None:
        """Apply a fault in one broker; return None if it does not run, or is paused and learns of it later."""
        member = self.members[broker_id]
        if member.state is MemberState.PAUSED:
            member.tell(do="apply", fault=remote.as_json())
            return None
        if member.state not in _ALIVE:
            return None
        try:
            answer: dict[str, Any] | None = await member.ask(do="apply", fault=remote.as_json())
        except FaultError:
            if member.state is MemberState.RUNNING and member.child.is_running:
                raise
            return None
        return answer

    async def _remove(self, fault_id: int) -> None:
        """End a fault in all brokers; those that are paused learn of it later."""
        remote, _ = self._faults.pop(fault_id)
        await asyncio.gather(*(self._end(fault_id, self.members[one]) for one in remote.targets))

    async def _end(self, fault_id: int, member: ProcessMember) -> None:
        if member.state is not MemberState.RUNNING:
            member.tell(do="heal", id=fault_id)
            return
        with contextlib.suppress(FaultError):  # the broker has just ended
            await member.ask(do="heal", id=fault_id)

    def remove_all(self) -> None:
        """End all faults within brokers, and do not wait for it: the brokers are about to stop."""
        for remote, _ in self._faults.values():
            for broker_id in remote.targets:
                self.members[broker_id].tell(do="heal", id=remote.id)
        self._faults.clear()

    # -- what brokers ask --------------------------------------------------------------------------------------------

    async def _do(self, frame: dict[str, Any]) -> Any:
        if frame["do"] == "begin":
            return {
                "brokers": list(self.members),
                "faults": [remote.as_json() for remote, _ in self._faults.values()],
            }
        assert frame["do"] == "over"
        self._check_over(frame["id"])
        return None

    def _check_all(self) -> None:
        """A broker has ended, and with it the uses that have waited there."""
        for fault_id in self._faults:
            self._check_over(fault_id)

    def _check_over(self, fault_id: int) -> None:
        """End a fault that is used up, if none of its uses waits."""
        task = asyncio.create_task(self._end_if_over(fault_id))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _end_if_over(self, fault_id: int) -> None:
        found = self._faults.get(fault_id)
        if found is None or found[1].counter.left != 0:
            return
        remote, fault = found
        for broker_id in remote.targets:
            member = self.members[broker_id]
            if member.state is MemberState.RUNNING and await self._is_waiting(member, fault_id):
                return  # it tells when the use has ended
        if fault_id in self._faults and not fault.is_healed and fault.is_waiting:
            fault.end_use()

    async def _is_waiting(self, member: ProcessMember, fault_id: int) -> bool:
        try:
            return bool(await member.ask(do="is_waiting", id=fault_id))
        except FaultError:  # it has ended
            return False


def uses_file(directory: Path, fault_id: int) -> Path:
    """Return the file that counts the uses of a fault."""
    return directory / f"uses-{fault_id}"


def remote_verbs() -> dict[str, Verb]:
    """Return the verbs for brokers that are processes."""
    return {name: _remote(verb) for name, verb in VERBS.items()}


def _remote(verb: Verb) -> Verb:
    if verb.targets is None:
        return verb

    async def apply(scene: ProcessScene, description: Description, fault: ActiveFault) -> Applied:
        return await scene.inject(verb, description, fault)

    return verb._replace(apply=apply)


def _merged(parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several brokers have done: numbers are added, lists are joined."""
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in json.loads(json.dumps(part)).items():
            merged[name] = merged[name] + value if name in merged else value
    return merged
