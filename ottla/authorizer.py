"""What an authorizer of your own needs: `from ottla.authorizer import Authorizer`. See docs/security.md."""

from broker.authorization.authorizer import AclAuthorizer, Authorizer
from security.acls.binding import AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType
from security.principal import Principal

__all__ = [
    "AccessRule",
    "AclAuthorizer",
    "AclBinding",
    "AclFilter",
    "Authorizer",
    "Operation",
    "PatternType",
    "Permission",
    "Principal",
    "ResourcePattern",
    "ResourceType",
]
