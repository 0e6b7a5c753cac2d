"""The rights of readers of a console, for tests without an authorizer."""

from security.acls.types import Operation, ResourceType
from security.principal import Principal


class SeesAllBut:
    """Reads everything but resources of these names, and changes nothing but what `may_write` names."""

    user: Principal | None = None
    administer = False

    def __init__(self, *hidden: str, may_write: str | None = None) -> None:
        self._hidden = hidden
        self._may_write = may_write

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """See `console.rights.Rights`."""
        return name not in self._hidden

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """See `console.rights.Rights`."""
        return name == self._may_write
