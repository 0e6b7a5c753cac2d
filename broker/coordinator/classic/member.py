"""A member of a classic group."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

Waiter = asyncio.Future
"""A request that waits for its answer. A group only stores it; `ClassicGroups` sets the result."""


class Member:
    """One member. A static member (KIP-345) has an instance id and remains a member when its member id changes."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Iterable[tuple[str, bytes]],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols: tuple[tuple[str, bytes], ...] = tuple(protocols)
        """(name, metadata), the preferred protocol first."""
        self.assignment = assignment
        self.joining: Waiter[JoinGroupResponse] | None = None
        """The JoinGroup that waits for its answer."""
        self.syncing: Waiter[SyncGroupResponse] | None = None
        """The SyncGroup that waits for its answer."""
        self.is_new = False
        """True from the member's first JoinGroup to its answer: the client cannot send heartbeats yet."""

    def rejoined(
        self,
        member_id: str,
        protocols: Iterable[tuple[str, bytes]],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> Member:
        """Return this static member as it is after it has joined again and received a new member id."""
        member = Member(
            member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=session_timeout_ms,
            protocols=protocols,
            assignment=self.assignment,
        )
        member.is_new = self.is_new
        return member

    @property
    def is_static(self) -> bool:
        """True if the member has an instance id (group.instance.id)."""
        return self.group_instance_id is not None

    @property
    def needs_heartbeat(self) -> bool:
        """True if the member is removed when its session timer expires.

        A member that waits for an answer sends no heartbeats and is kept, unless it is new.
        """
        return self.is_new or (self.joining is None and self.syncing is None)

    def metadata(self, protocol: str) -> bytes:
        """Return the member's metadata for a protocol. Raises KeyError if the member does not support the protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)

    def vote(self, candidates: Collection[str]) -> str:
        """Return the member's preferred protocol among the candidates."""
        return next(name for name, _ in self.protocols if name in candidates)
