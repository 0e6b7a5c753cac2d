"""What the sender of one request to the console may see and do. The authorizer of the broker decides.

Reading needs Describe on the cluster; topics and groups that the user may not describe are not shown. A change
needs the operation of the action, as the request of the Kafka protocol for it; without an authorizer, everybody who has
logged in may do everything, as on a listener. Two kinds of senders have no user:

- what ottla.console.open names is open to everybody, and the authorizer is not asked, except about records: reading
  them needs Read on the topic, for User:ANONYMOUS;
- on a loopback address without logins, everybody of this machine acts as User:ANONYMOUS, if a PLAINTEXT listener lets
  them do the same.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.authorization.access import Access
from security.acls.binding import CLUSTER_NAME
from security.acls.types import Operation, ResourceType
from security.principal import ANONYMOUS, Principal

_CHANGES: Final = tuple(
    (operation, resource_type)
    for resource_type, operations in (
        (ResourceType.CLUSTER, (Operation.ALTER, Operation.ALTER_CONFIGS, Operation.CREATE)),
        (
            ResourceType.TOPIC,
            (Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS),
        ),
        (ResourceType.GROUP, (Operation.DELETE,)),
    )
    for operation in operations
)
_RESETS: Final = ((Operation.READ, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC))
"""What a user needs to reset offsets: both."""


class Visitor:
    """Who has sent a request. It is an `Asker` of the authorizer, and the `Client` of it."""

    client_id: str | None = None
    listener_name = "console"

    def __init__(self, principal: Principal, host: str) -> None:
        """host: the IP address."""
        self.principal = principal
        self.host = host
        self.audited: set[object] | None = None

    @property
    def connection(self) -> Visitor:
        """The client."""
        return self

    @property
    def client_address(self) -> str:
        """The IP address."""
        return self.host


class Rights:
    """The rights of the sender of one request."""

    def __init__(self, access: Access | None, visitor: Visitor, api: str, *, reads_all: bool, acts: bool) -> None:
        """api: the request in the audit log. reads_all: reading is open to everybody.

        acts: the sender may act at all, if the authorizer allows it.
        """
        self._access = access
        self._visitor = visitor
        self._api = api
        self._reads_all = reads_all or access is None
        self._acts = acts

    @property
    def user(self) -> Principal | None:
        """The user that has logged in; None for everybody."""
        return None if self._visitor.principal == ANONYMOUS else self._visitor.principal

    @property
    def read_cluster(self) -> bool:
        """Whether the request may read about the cluster. The audit log has a line for it."""
        return self._reads_all or self._allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)

    @property
    def see_users(self) -> bool:
        """Whether the request may read about the quotas of users."""
        return self.sees(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)

    @property
    def may_change(self) -> bool:
        """Whether the sender may change anything at all."""
        if not self._acts or self._access is None:
            return self._acts
        ask = partial(self._access.sees_any, self._visitor)
        return any(ask(*one) for one in _CHANGES) or all(ask(*one) for one in _RESETS)

    def see_topic(self, name: str) -> bool:
        """Whether the request may read about a topic."""
        return self.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def see_group(self, name: str) -> bool:
        """Whether the request may read about a group."""
        return self.sees(Operation.DESCRIBE, ResourceType.GROUP, name)

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the request may change this. The audit log has a line for it."""
        return self._acts and (self._access is None or self._allows(operation, resource_type, name))

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the request may read about this. Not in the audit log.

        To read the records of a topic is never open to everybody if there is an authorizer.
        """
        access = self._access
        if access is not None and (operation, resource_type) == (Operation.READ, ResourceType.TOPIC):
            return access.sees(self._visitor, operation, resource_type, name)
        return self._reads_all or access is None or access.sees(self._visitor, operation, resource_type, name)

    def _allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        assert self._access is not None
        return self._access.allows(self._visitor, self._api, operation, resource_type, name)
