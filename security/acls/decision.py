"""The decisions of Kafka's AclAuthorizer: its ACLs, its super users, and its setting for resources without ACLs."""

from __future__ import annotations

from security.acls.rules import AclRules
from security.acls.types import Operation, ResourceType
from security.addresses import normal_address
from security.principal import Principal
from security.trimming import trimmed


class AclDecisions:
    """Decides by ACLs. Super users may do everything, whatever an ACL denies."""

    def __init__(self, rules: AclRules, super_users: frozenset[Principal], *, allows_without_acls: bool) -> None:
        """allows_without_acls: everybody may do everything with a resource for which there is no ACL."""
        self._rules = rules
        self._super_users = super_users
        self._allows_without_acls = allows_without_acls

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether a user may do this with the resource of this name. host: the client's IP address."""
        if principal in self._super_users:
            return True
        if self._allows_without_acls and not self._rules.have_any_for(resource_type, name):
            return True
        return self._rules.allow(str(principal), normal_address(host), operation, resource_type, name)

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether a user may do this with any resource of a type, which need not exist."""
        if principal in self._super_users:
            return True
        host = normal_address(host)
        if self._allows_without_acls and not self._rules.deny_all(str(principal), host, operation, resource_type):
            return True
        return self._rules.allow_any(str(principal), host, operation, resource_type)


def parse_super_users(text: str) -> frozenset[Principal]:
    """Read `super.users`: principals separated by semicolons. Raises ValueError for an entry that is not type:name."""
    entries = [trimmed(entry) for entry in text.split(";")]
    while entries and not entries[-1]:
        entries.pop()
    return frozenset(parse_acl_principal(entry) for entry in entries)


def parse_acl_principal(text: str) -> Principal:
    """Read the principal of an ACL as Kafka does: `type:name`, of which each part may be empty. Raises ValueError."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} must be type:name, for example User:alice")
    return Principal(kind, name)
