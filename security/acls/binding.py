"""ACL bindings and the filters that select them."""

from __future__ import annotations

from typing import Final, NamedTuple

from security.acls.types import Operation, PatternType, Permission, ResourceType

ANY_NAME: Final = "*"
"""As the name of a literal pattern: every resource of the type. As a host: every host."""
ANY_USER: Final = "User:*"
"""As the principal of an ACL: every user, also User:ANONYMOUS."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class ResourcePattern(NamedTuple):
    """The resources of one type that an ACL is about: one name, `*`, or all names that begin with a prefix."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class AccessRule(NamedTuple):
    """Who may, or may not, do what from where. principal: `User:alice` or `User:*`. host: an IP address or `*`."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclBinding(NamedTuple):
    """A rule and the resources that it is about."""

    pattern: ResourcePattern
    rule: AccessRule


class AclFilter(NamedTuple):
    """Selects bindings. None, or the number of ANY, selects everything; numbers that nothing has select nothing.

    pattern_type: MATCH selects every pattern that covers the resource called `name`.
    """

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def selects(self, pattern: ResourcePattern) -> bool:
        """Whether rules of this pattern may be selected."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return self.name is None or self.pattern_type != PatternType.MATCH or _covers(pattern, self.name)
        return self.pattern_type == PatternType.MATCH and _covers(pattern, self.name)

    def matches(self, rule: AccessRule) -> bool:
        """Whether a rule of a selected pattern is selected."""
        return (
            self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
        )

    @property
    def only_pattern(self) -> ResourcePattern | None:
        """The one pattern that this filter can select; None if there may be several."""
        kind, pattern = ResourceType.known(self.resource_type), PatternType.known(self.pattern_type)
        if self.name is None or kind in (None, ResourceType.ANY):
            return None
        if pattern in (None, PatternType.ANY, PatternType.MATCH):
            return None
        return ResourcePattern(ResourceType(self.resource_type), self.name, PatternType(self.pattern_type))


def _covers(pattern: ResourcePattern, name: str) -> bool:
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, ANY_NAME)
