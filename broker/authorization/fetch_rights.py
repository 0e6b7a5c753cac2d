"""What a client may fetch: Read on each topic, or as a follower ClusterAction on the cluster.

The handler of Fetch asks, not a rule around it, because the partitions of a session are not in the request.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.fetch_sessions import FetchSession
from broker.requests.context import RequestContext
from broker.services import Services
from protocol.uuid import ZERO_UUID
from replication.fetch import FetchPartition
from security.acls.binding import CLUSTER_NAME
from security.acls.types import Operation, ResourceType

API = "Fetch"


class FetchRights:
    """Asks the authorizer, if there is one."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def may_follow(self, context: RequestContext) -> bool:
        """Whether a client that claims to be a broker may be one; without an authorizer by its listener."""
        access = self._services.access
        if access is None:
            return context.listener_name in self._services.config.trusted_listener_names
        return access.allows(context, API, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)

    def _may_read(self, context: RequestContext) -> Callable[[FetchPartition], bool] | None:
        """Return a function that tells whether a consumer may read a partition; None if everybody may."""
        access, names = self._services.access, self._services.metadata.snapshot.topic_names
        if access is None:
            return None

        decided: dict[str, bool] = {}  # each topic is decided on once, not each partition

        def may_read(one: FetchPartition) -> bool:
            topic = one.topic or names.get(one.topic_id, "")
            if not topic and one.topic_id != ZERO_UUID:
                return True  # without a topic of this id, the answer is UNKNOWN_TOPIC_ID for everybody
            allowed = decided.get(topic)
            if allowed is None:
                allowed = access.allows(context, API, Operation.READ, ResourceType.TOPIC, topic)
                decided[topic] = allowed
            return allowed

        return may_read

    def split(
        self, wanted: list[FetchPartition], context: RequestContext
    ) -> tuple[list[FetchPartition], list[FetchPartition]]:
        """Return what the consumer may read, and what it may not."""
        may_read = self._may_read(context)
        if may_read is None:
            return wanted, []
        allowed: list[FetchPartition] = []
        refused: list[FetchPartition] = []
        for one in wanted:
            (allowed if may_read(one) else refused).append(one)
        return allowed, refused

    def refused_in(self, session: FetchSession, context: RequestContext) -> list[FetchPartition]:
        """Return what the consumer may not read in its session, and keep it from being read."""
        may_read, access = self._may_read(context), self._services.access
        if may_read is None or access is None:
            return []
        return session.refuse(may_read, (context.principal, context.client_address, access.generation))
