"""ACLs in requests: reads bindings and filters from them, and finds the authorizer that has ACLs.

As in Kafka, a number 0 (UNKNOWN) in a request closes the connection without an answer. Numbers above the known ones
select nothing in filters, and are refused in CreateAcls.
"""

from __future__ import annotations

from broker.authorization.authorizer import AclAuthorizer
from broker.errors import RequestError
from broker.network.connection import CloseConnectionError
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.create_acls import AclCreation
from protocol.messages.delete_acls import DeleteAclsFilter
from protocol.messages.describe_acls import DescribeAclsRequest
from security.acls.binding import AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType

NO_AUTHORIZER = "No Authorizer is configured."


def acl_authorizer(services: Services) -> AclAuthorizer | None:
    """Return the authorizer of this broker if it has ACLs."""
    authorizer = None if services.access is None else services.access.authorizer
    return authorizer if isinstance(authorizer, AclAuthorizer) else None


def filter_of(part: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter of a request. Raises CloseConnectionError for UNKNOWN."""
    numbers = (part.resource_type_filter, part.pattern_type_filter, part.operation, part.permission_type)
    _refuse_unknown(*numbers)
    return AclFilter(
        part.resource_type_filter,
        part.resource_name_filter,
        part.pattern_type_filter,
        part.principal_filter,
        part.host_filter,
        part.operation,
        part.permission_type,
    )


def refuse_unknown_creations(creations: list[AclCreation]) -> None:
    """Raise CloseConnectionError if one of the ACLs of a request has UNKNOWN."""
    for one in creations:
        _refuse_unknown(one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)


def binding_of(one: AclCreation) -> AclBinding:
    """Return the ACL of a request. Raises RequestError for numbers that nothing has, ValueError for ANY and MATCH."""
    resource_type = ResourceType.known(one.resource_type)
    pattern_type = PatternType.known(one.resource_pattern_type)
    operation, permission = Operation.known(one.operation), Permission.known(one.permission_type)
    if None in (resource_type, pattern_type, operation, permission):
        raise RequestError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
    if resource_type == ResourceType.ANY or pattern_type in (PatternType.ANY, PatternType.MATCH):
        raise ValueError("an ACL has one resource type and one pattern type")
    if operation == Operation.ANY or permission == Permission.ANY:
        raise ValueError("an ACL has one operation and one permission")
    return AclBinding(
        ResourcePattern(ResourceType(one.resource_type), one.resource_name, PatternType(one.resource_pattern_type)),
        AccessRule(one.principal, one.host, Operation(one.operation), Permission(one.permission_type)),
    )


def _refuse_unknown(*numbers: int) -> None:
    if 0 in numbers:
        raise CloseConnectionError("a request about ACLs has an UNKNOWN resource, pattern, operation or permission")
