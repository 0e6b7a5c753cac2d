"""The interface of an authorizer, for Ottla's own and for those of users (`ottla.authorizer`).

A class for `ottla.authorizer=module:Class` is a subclass of `Authorizer`. The broker makes one object with the static
settings of the broker as its argument, awaits `start` before the first request is served, and `close` at the end.
Decisions are made in the event loop and are cached: an authorizer answers from memory, and calls `changed` when its
decisions may be different from then on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from security.acls.binding import AclBinding, AclFilter
from security.acls.types import Operation, ResourceType
from security.principal import Principal


class Authorizer(ABC):
    """Decides who may do what."""

    changed: Callable[[], None] = staticmethod(lambda: None)
    """Drops the cached decisions. The broker sets it before `start`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """settings: those of the broker's file and command line, as text. They may contain passwords."""
        self.settings = settings

    async def start(self) -> None:  # noqa: B027 - most need nothing
        """Get ready to decide. An exception stops the start of the broker."""

    async def close(self) -> None:  # noqa: B027 - most need nothing
        """Release everything. Called once, after the last decision."""

    @abstractmethod
    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether a user at an IP address may do this with a resource. An exception is logged and means no."""

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether a user may do this with any resource of a type, which need not exist.

        For idempotent producers, which name no topic when they start: they may start if they may write to any topic, or
        have IdempotentWrite on the cluster.
        """
        return False


class AclAuthorizer(Authorizer):
    """An authorizer whose ACLs clients read and change with DescribeAcls, CreateAcls and DeleteAcls.

    With another authorizer, these APIs answer SECURITY_DISABLED.
    """

    @abstractmethod
    def describe(self, acl_filter: AclFilter) -> Iterable[AclBinding]:
        """Return the ACLs that a filter selects."""

    @abstractmethod
    async def create(self, bindings: Sequence[AclBinding]) -> list[Exception | None]:
        """Add ACLs. Return None or the error of each; an ACL that exists is no error."""

    @abstractmethod
    async def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding] | Exception]:
        """Delete the ACLs that filters select. Return those of each filter, or its error."""
