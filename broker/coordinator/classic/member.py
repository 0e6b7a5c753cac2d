"""A member of a classic group, as its coordinator knows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from broker.coordinator.classic.decision import Waiter
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse


class Member:
    """One member. A static member (KIP-345) has an instance id, and keeps its place when its member id changes."""

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
        """(name, metadata) by preference."""
        self.assignment = assignment
        self.joining: Waiter[JoinGroupResponse] | None = None
        """The JoinGroup that waits for its answer."""
        self.syncing: Waiter[SyncGroupResponse] | None = None
        """The SyncGroup that waits for its answer."""
        self.is_new = False
        """From its first JoinGroup to that one's answer: it cannot send heartbeats yet."""

    @property
    def is_static(self) -> bool:
        """True with a group.instance.id."""
        return self.group_instance_id is not None

    @property
    def needs_heartbeat(self) -> bool:
        """True where the member is gone if nothing is heard of it; what waits for an answer sends no heartbeats."""
        return self.is_new or (self.joining is None and self.syncing is None)

    def metadata(self, protocol: str) -> bytes:
        """What the member said to a protocol. Raises KeyError where it does not know that."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)

    def vote(self, candidates: Collection[str]) -> str:
        """The protocol that the member likes best among those that all know."""
        return next(name for name, _ in self.protocols if name in candidates)
