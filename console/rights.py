"""What the sender of a request may see and do. Who mounts the application decides it."""

from __future__ import annotations

from typing import Protocol

from security.acls.types import Operation, ResourceType
from security.principal import Principal


class Rights(Protocol):
    """The rights of the sender of one request, in Kafka's terms. `broker.console.rights.Rights` is one."""

    @property
    def user(self) -> Principal | None:
        """The user that has logged in; None for everybody."""

    @property
    def may_change(self) -> bool:
        """Whether the sender may change anything at all: for pages that show what can be done."""

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the sender may read about this."""

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the sender may change this."""


class ClusterDecides:
    """Lets everything through: the brokers decide, by the user that the clients of the application log in with."""

    user: Principal | None = None
    may_change = True

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """See `Rights`."""
        return True

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """See `Rights`."""
        return True
