"""The types of access control lists, for `Admin`: `from ottla.acls import AclBinding`. See docs/client.md."""

from security.acls.binding import AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType

__all__ = [
    "AccessRule",
    "AclBinding",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourcePattern",
    "ResourceType",
]
