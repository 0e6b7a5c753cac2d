"""Znodes of access control lists, and the notifications of their changes.

Literal patterns are under /kafka-acl, prefixed ones under /kafka-acl-extended/prefixed. Resource types are in
Pascal case in paths (Topic, TransactionalId) and in capitals in notifications (TOPIC, TRANSACTIONAL_ID).
"""

from __future__ import annotations

from typing import NamedTuple

from registry.errors import ZnodeFormatError
from registry.znodes.znode import Content, EmptyZnode, Znode, parse_text, to_json

# In the order in which Kafka creates their nodes.
RESOURCE_TYPES = ("User", "Topic", "Group", "DelegationToken", "TransactionalId", "Cluster")


class AclsZnode(EmptyZnode):
    """Parent of literal ACLs."""

    TEMPLATE = "/kafka-acl"


class AclResourceTypeZnode(EmptyZnode):
    """Parent of the literal ACLs of one resource type."""

    TEMPLATE = "/kafka-acl/{resource_type}"


class ExtendedAclsZnode(EmptyZnode):
    """Parent of the other pattern types."""

    TEMPLATE = "/kafka-acl-extended"


class ExtendedAclPatternTypeZnode(EmptyZnode):
    """Parent of the ACLs of one pattern type: prefixed."""

    TEMPLATE = "/kafka-acl-extended/{pattern_type}"


class ExtendedAclResourceTypeZnode(EmptyZnode):
    """Parent of the ACLs of one pattern type and resource type."""

    TEMPLATE = "/kafka-acl-extended/{pattern_type}/{resource_type}"


class AclEntry(NamedTuple):
    """One rule, with Kafka's names: `User:alice`, `Allow`, `*`, `DescribeConfigs`."""

    principal: str
    permission_type: str
    host: str
    operation: str


class ResourceAclZnode(Znode):
    """The rules for one literal resource, in the order of Kafka's hash set when it wrote them."""

    TEMPLATE = "/kafka-acl/{resource_type}/{resource}"

    acls: list[AclEntry]

    @staticmethod
    def path(resource_type: str, resource: str) -> str:
        """Path for a resource type in Pascal case and a resource name."""
        return f"/kafka-acl/{resource_type}/{resource}"

    def encode(self) -> bytes:
        """JSON in the order of Kafka's hash maps."""
        acls = [
            {
                "principal": entry.principal,
                "permissionType": entry.permission_type,
                "host": entry.host,
                "operation": entry.operation,
            }
            for entry in self.acls
        ]
        return to_json({"acls": acls, "version": 1})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ResourceAclZnode:
        """Read version 1; without data there are no rules."""
        if not data:
            return cls(acls=[])
        content = Content.parse(data, path)
        content.version(1, 1)
        return cls(acls=[_entry(item) for item in content.objects("acls")])


class ExtendedResourceAclZnode(ResourceAclZnode):
    """The rules for one prefixed resource."""

    TEMPLATE = "/kafka-acl-extended/{pattern_type}/{resource_type}/{resource}"

    @staticmethod
    def path(resource_type: str, resource: str) -> str:
        """Path for a resource type in Pascal case and a prefix."""
        return f"/kafka-acl-extended/prefixed/{resource_type}/{resource}"


class AclChangesZnode(EmptyZnode):
    """Parent of the notifications about literal ACLs."""

    TEMPLATE = "/kafka-acl-changes"


class AclChangeZnode(Znode):
    """Notifies brokers that the rules of a literal resource have changed: `TOPIC:name`. Sequential."""

    TEMPLATE = "/kafka-acl-changes/acl_changes_{sequence}"

    resource_type: str  # in capitals
    resource: str

    @staticmethod
    def path(sequence: str = "") -> str:
        """Path for a sequence number; without, the prefix to create one."""
        return f"/kafka-acl-changes/acl_changes_{sequence}"

    def encode(self) -> bytes:
        """Plain text."""
        return f"{self.resource_type}:{self.resource}".encode()

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> AclChangeZnode:
        """Read plain text; the name may contain colons."""
        resource_type, colon, resource = parse_text(data, path).partition(":")
        if not colon:
            raise ZnodeFormatError(path, "must be of the form TYPE:name")
        return cls(resource_type=resource_type, resource=resource)


class ExtendedAclChangesZnode(EmptyZnode):
    """Parent of the notifications about other ACLs."""

    TEMPLATE = "/kafka-acl-extended-changes"


class ExtendedAclChangeZnode(Znode):
    """Notifies brokers that the rules of a prefixed resource have changed. Sequential."""

    TEMPLATE = "/kafka-acl-extended-changes/acl_changes_{sequence}"

    resource_type: str  # in capitals
    resource: str
    pattern_type: str = "PREFIXED"

    @staticmethod
    def path(sequence: str = "") -> str:
        """Path for a sequence number; without, the prefix to create one."""
        return f"/kafka-acl-extended-changes/acl_changes_{sequence}"

    def encode(self) -> bytes:
        """JSON in Kafka's order."""
        fields = {"version": 1, "resourceType": self.resource_type, "name": self.resource}
        return to_json({**fields, "patternType": self.pattern_type})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ExtendedAclChangeZnode:
        """Read version 1."""
        content = Content.parse(data, path)
        content.version(0, 1)
        return cls(
            resource_type=content.string("resourceType"),
            resource=content.string("name"),
            pattern_type=content.string("patternType"),
        )


def _entry(content: Content) -> AclEntry:
    principal = content.string("principal")
    if ":" not in principal:
        content.fail("principal", "must be of the form type:name")
    permission_type = content.string("permissionType")
    return AclEntry(principal, permission_type, content.string("host"), content.string("operation"))
