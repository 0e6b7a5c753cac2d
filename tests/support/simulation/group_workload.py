"""Members of classic groups in a simulated cluster: they join, sync, send heartbeats, commit, leave, and do so again.

A member is a machine of its own. It believes what the coordinator says; `GroupLedger` holds that against what others
were told.
"""

from __future__ import annotations

import asyncio

from protocol.error_codes import ErrorCode
from support.groups import GroupMember, fetch_offsets
from support.simulation.cluster import SimulatedCluster
from support.simulation.group_ledger import NO_OFFSET, GroupLedger, Sent
from support.simulation.ledger import BrokenPromiseError
from support.simulation.plain_client import ELSEWHERE, GROUP, NowhereError, PlainClient, UnansweredError

SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 6_000
LATER = (*ELSEWHERE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
MAYBE = (ErrorCode.REQUEST_TIMED_OUT, *LATER)
"""What an OffsetCommit may be answered though it is in the log."""


class RejoinError(Exception):
    """The member must rejoin."""


class GroupWorkload:
    """The members of one group, as tasks."""

    def __init__(self, cluster: SimulatedCluster, group_id: str, topic: str, partitions: int) -> None:
        self.ledger = GroupLedger(group_id, lambda: asyncio.get_running_loop().time())
        self._cluster = cluster
        self._group_id = group_id
        self._topic = topic
        self._partitions = partitions
        self._stopping = False

    def stop(self) -> None:
        """Make all members leave."""
        self._stopping = True

    async def live(self, client: PlainClient) -> None:
        """Run one member after another until stopped."""
        ask = client.ask_coordinator(GROUP, self._group_id)
        member = self._new_member(ask)
        while not self._stopping:
            try:
                sent, mine, coordinator = await self._join(member, client)
                await self._work(member, client, sent, mine, coordinator)
                self._check(client, await member.leave())
                member = self._new_member(ask)
                await client.pause(0.0, 2.0)
            except RejoinError:
                if client.random.random() < 0.1:
                    member = self._new_member(ask)  # what it was is left to the session timeout
            except (UnansweredError, NowhereError) as error:
                self._cluster.trace.note(client.name, error)
                await client.pause()

    def _new_member(self, ask: object) -> GroupMember:
        member = GroupMember(ask, self._group_id, topics=(self._topic,))  # type: ignore[arg-type]
        member.session_timeout_ms, member.rebalance_timeout_ms = SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS
        return member

    def _check(self, client: PlainClient, code: int, member: GroupMember | None = None) -> None:
        """Raises RejoinError, or BrokenPromiseError for an error that a correct member never gets."""
        if code == ErrorCode.NONE:
            return
        self._cluster.trace.note(client.name, self._group_id, ErrorCode(code).name)
        if code in ELSEWHERE:
            client.forget(GROUP, self._group_id)
        if code == ErrorCode.UNKNOWN_MEMBER_ID and member is not None:
            member.member_id = ""
        if code not in (*LATER, *REJOIN, ErrorCode.REQUEST_TIMED_OUT):
            raise BrokenPromiseError(f"a member of {self._group_id} is told {ErrorCode(code).name}")
        raise RejoinError

    async def _join(self, member: GroupMember, client: PlainClient) -> tuple[Sent, list[int], int | None]:
        """Join and sync. Return the leader's SyncGroup, the own partitions, and the coordinator."""
        await client.pause(0.0, 0.1)
        answer = await member.join_once()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = await member.join_once()
        self._check(client, answer.error_code, member)
        shares: dict[str, bytes] = {}
        if answer.leader == answer.member_id:
            members = [one.member_id for one in answer.members]
            owned: dict[str, list[int]] = {one: [] for one in members}
            for partition in range(self._partitions):
                owned[client.random.choice(members)].append(partition)
            await client.pause(0.0, 0.05)
            shares = self.ledger.send(member.generation, owned)
        synced = await member.sync(shares)
        self._check(client, synced.error_code, member)
        sent, mine = self.ledger.give(member.generation, member.member_id, synced.assignment)
        self._cluster.trace.note(client.name, member.member_id, "generation", member.generation, "has", mine)
        return sent, mine, client.coordinator_of(GROUP, self._group_id)

    async def _work(
        self, member: GroupMember, client: PlainClient, sent: Sent, mine: list[int], coordinator: int | None
    ) -> None:
        """Commit offsets of own partitions for some time. Raises RejoinError if there is a rebalance."""
        for partition in mine:
            await self._read(member, client, partition, sent, coordinator)
        for _ in range(client.random.randint(3, 60)):
            if self._stopping:
                return
            if mine and client.random.random() < 0.7:
                await self._commit(member, client, client.random.choice(mine))
            else:
                self._check(client, await member.heartbeat(), member)
            await client.pause()

    async def _commit(self, member: GroupMember, client: PlainClient, partition: int) -> None:
        commit = self.ledger.commit(partition, member.generation)
        code = await member.commit(self._topic, commit.offset, partition)
        commit.is_acknowledged = code == ErrorCode.NONE
        commit.is_refused = bool(code) and code not in MAYBE
        if code not in MAYBE:
            commit.answered_s = asyncio.get_running_loop().time()
        self._check(client, code, member)

    async def _read(
        self, member: GroupMember, client: PlainClient, partition: int, sent: Sent, coordinator: int | None
    ) -> None:
        code, found = await fetch_offsets(member.ask, self._group_id, self._topic, partition)
        self._check(client, code, member)
        is_same = client.coordinator_of(GROUP, self._group_id) == coordinator
        self.ledger.read(partition, found[partition][0] if found else NO_OFFSET, before_s=sent.sent_s, strict=is_same)

    async def check_offsets(self, client: PlainClient) -> None:
        """Check, after all faults are undone, that acknowledged commits exist."""
        ask = client.ask_coordinator(GROUP, self._group_id)
        for partition in range(self._partitions):
            while True:
                try:
                    code, found = await fetch_offsets(ask, self._group_id, self._topic, partition, require_stable=True)
                except (UnansweredError, NowhereError):
                    code = int(ErrorCode.NOT_COORDINATOR)
                if not code:
                    break
                client.forget(GROUP, self._group_id)
                await asyncio.sleep(0.2)
            offset = found[partition][0] if found else NO_OFFSET
            self.ledger.read(partition, offset, before_s=asyncio.get_running_loop().time())
