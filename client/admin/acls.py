"""The part of the admin client for access control lists (KIP-140, KIP-290). Any broker answers.

    from ottla.acls import AccessRule, AclBinding, AclFilter, Operation, Permission, ResourcePattern, ResourceType

A broker without an authorizer raises SecurityDisabledError.
"""

from collections.abc import Iterable

from client.admin.base import AdminBase
from client.errors import KafkaError, UnsupportedApiError, error_for
from client.wire.connection import Connection
from protocol.message import Message
from protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from security.acls.binding import AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType

_FIRST_VERSION_WITH_PREFIXES = 1


class AclAdmin(AdminBase):
    """DescribeAcls, CreateAcls and DeleteAcls."""

    async def describe_acls(self, acl_filter: AclFilter | None = None) -> list[AclBinding]:
        """The ACLs that a filter selects, sorted; without a filter all."""
        wanted = acl_filter or AclFilter()

        async def ask() -> list[AclBinding]:
            connection = await self._cluster.any_connection()
            version = _version(connection, DescribeAclsRequest, [wanted.pattern_type])
            request = DescribeAclsRequest(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
            response = await connection.call(request, DescribeAclsResponse, version)
            if response.error_code:
                raise error_for(response.error_code, response.error_message, context="ACLs")
            return sorted(
                _binding(
                    (resource.resource_type, resource.resource_name, resource.pattern_type),
                    (one.principal, one.host, one.operation, one.permission_type),
                )
                for resource in response.resources
                for one in resource.acls
            )

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def create_acls(self, bindings: Iterable[AclBinding]) -> dict[AclBinding, KafkaError | None]:
        """Add ACLs. Return None or the error of each; an ACL that exists already is no error."""
        wanted = list(dict.fromkeys(bindings))
        creations = [
            AclCreation(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for pattern, rule in wanted
        ]

        async def ask() -> dict[AclBinding, KafkaError | None]:
            connection = await self._cluster.any_connection()
            version = _version(connection, CreateAclsRequest, [one.resource_pattern_type for one in creations])
            response = await connection.call(CreateAclsRequest(creations=creations), CreateAclsResponse, version)
            return {
                binding: error_for(one.error_code, one.error_message, context=_label(binding.pattern))
                if one.error_code
                else None
                for binding, one in zip(wanted, response.results, strict=True)
            }

        return await self._cluster.retry(ask, timeout_s=self._timeout_s) if wanted else {}

    async def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, list[AclBinding] | KafkaError]:
        """Delete the ACLs that filters select. Return for each filter what was deleted, or its error."""
        wanted = list(dict.fromkeys(filters))
        parts = [
            DeleteAclsFilter(
                resource_type_filter=one.resource_type,
                resource_name_filter=one.name,
                pattern_type_filter=one.pattern_type,
                principal_filter=one.principal,
                host_filter=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in wanted
        ]

        async def ask() -> dict[AclFilter, list[AclBinding] | KafkaError]:
            connection = await self._cluster.any_connection()
            version = _version(connection, DeleteAclsRequest, [one.pattern_type for one in wanted])
            response = await connection.call(DeleteAclsRequest(filters=parts), DeleteAclsResponse, version)
            found: dict[AclFilter, list[AclBinding] | KafkaError] = {}
            for acl_filter, result in zip(wanted, response.filter_results, strict=True):
                if result.error_code:
                    found[acl_filter] = error_for(result.error_code, result.error_message, context="ACLs")
                    continue
                found[acl_filter] = sorted(
                    _binding(
                        (one.resource_type, one.resource_name, one.pattern_type),
                        (one.principal, one.host, one.operation, one.permission_type),
                    )
                    for one in result.matching_acls
                    if not one.error_code
                )
            return found

        return await self._cluster.retry(ask, timeout_s=self._timeout_s) if wanted else {}


def _version(connection: Connection, request: type[Message], pattern_types: Iterable[int]) -> int:
    """The version to use. Raises UnsupportedApiError if a broker before Kafka 2.0 would misunderstand a pattern."""
    version = connection.common_version(request)
    if version < _FIRST_VERSION_WITH_PREFIXES and set(pattern_types) - {PatternType.LITERAL, PatternType.ANY}:
        raise UnsupportedApiError("the broker is too old for prefixes in ACLs")
    return version


def _binding(pattern: tuple[int, str, int], rule: tuple[str, str, int, int]) -> AclBinding:
    """The binding with these fields. Raises ValueError for numbers that Kafka 3.9 does not have."""
    resource_type, name, pattern_type = pattern
    principal, host, operation, permission = rule
    return AclBinding(
        ResourcePattern(ResourceType(resource_type), name, PatternType(pattern_type)),
        AccessRule(principal, host, Operation(operation), Permission(permission)),
    )


def _label(pattern: ResourcePattern) -> str:
    return f"{pattern.resource_type.label} {pattern.name}"
