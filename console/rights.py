"""What the sender of a request may see and do. Who mounts the application decides it."""

from __future__ import annotations

from typing import Protocol

from security.acls.types import Operation, ResourceType


class Rights(Protocol):
    """The rights of the sender of one request, in Kafka's terms. `broker.console.rights.Rights` is one."""

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the sender may read about this."""

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the sender may change this."""


class ClusterDecides:
    """Lets everything through: the brokers decide, by the user that the clients of the application log in with."""

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """See `Rights`."""
        return True

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """See `Rights`."""
        return True
