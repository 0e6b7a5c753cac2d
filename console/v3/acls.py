"""Access control lists. A cluster without an authorizer answers 400 (SECURITY_DISABLED)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from aiohttp import web
from pydantic import BeforeValidator, Field, StringConstraints

from client.errors import KafkaError
from console.rest.call import Call
from console.rest.models import Answer, Asked, Listing, Metadata, Name
from console.rest.operation import Parameter
from security.acls.binding import AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType

RESOURCE_TYPES: Final = ("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")


class AclData(Answer):
    """An access control list entry."""

    kind: Literal["KafkaAcl"] = "KafkaAcl"
    metadata: Metadata
    cluster_id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclList(Listing[AclData]):
    """Access control list entries."""

    kind: Literal["KafkaAclList"] = "KafkaAclList"


class DeletedAcls(Answer):
    """The entries that were deleted."""

    data: list[AclData]


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


class NewAcl(Asked):
    """An entry to create. host: an IP address or `*`. principal: `User:alice` or `User:*`."""

    resource_type: Annotated[
        Literal["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"], BeforeValidator(_upper)
    ]
    resource_name: Name
    pattern_type: Annotated[Literal["LITERAL", "PREFIXED"], BeforeValidator(_upper)]
    principal: Annotated[str, StringConstraints(pattern=r"^[^:]+:.+$")]
    host: Name
    operation: Annotated[
        Literal[
            "ALL",
            "READ",
            "WRITE",
            "CREATE",
            "DELETE",
            "ALTER",
            "DESCRIBE",
            "CLUSTER_ACTION",
            "DESCRIBE_CONFIGS",
            "ALTER_CONFIGS",
            "IDEMPOTENT_WRITE",
            "CREATE_TOKENS",
            "DESCRIBE_TOKENS",
        ],
        BeforeValidator(_upper),
    ]
    permission: Annotated[Literal["ALLOW", "DENY"], BeforeValidator(_upper)]

    def binding(self) -> AclBinding:
        """Return the entry for the admin client."""
        pattern = ResourcePattern(ResourceType[self.resource_type], self.resource_name, PatternType[self.pattern_type])
        rule = AccessRule(self.principal, self.host, Operation[self.operation], Permission[self.permission])
        return AclBinding(pattern, rule)


class NewAcls(Asked):
    """Entries to create."""

    data: Annotated[list[NewAcl], Field(min_length=1)]


def parameters(required: tuple[str, ...] = ()) -> tuple[Parameter, ...]:
    """Return the parameters of the query that select entries."""
    choices = {
        "resource_type": RESOURCE_TYPES,
        "resource_name": (),
        "pattern_type": tuple(one.name for one in PatternType),
        "principal": (),
        "host": (),
        "operation": tuple(one.name for one in Operation),
        "permission": tuple(one.name for one in Permission),
    }
    return tuple(Parameter(name, name in required, values) for name, values in choices.items())


async def list_acls(call: Call) -> AclList:
    """List access control list entries: all, or those that the query selects."""
    found = await call.admin.describe_acls(_filter(call))
    return AclList(metadata=call.place.listed("acls"), data=[_data(call, one) for one in found])


async def create_acl(call: Call) -> web.Response:
    """Create an access control list entry. One that exists is no error."""
    asked: NewAcl = call.asked
    return await _create(call, [asked])


async def create_acls(call: Call) -> web.Response:
    """Create access control list entries. Some may have been created if one is refused."""
    asked: NewAcls = call.asked
    return await _create(call, asked.data)


async def delete_acls(call: Call) -> DeletedAcls:
    """Delete the access control list entries that the query selects, and return them."""
    acl_filter = _filter(call)
    deleted = (await call.admin.delete_acls([acl_filter]))[acl_filter]
    if isinstance(deleted, KafkaError):
        raise deleted
    return DeletedAcls(data=[_data(call, one) for one in deleted])


async def _create(call: Call, wanted: Iterable[NewAcl]) -> web.Response:
    for error in (await call.admin.create_acls([one.binding() for one in wanted])).values():
        if error is not None:
            raise error
    return web.Response(status=201, headers={"Cache-Control": "no-store", "Location": call.place.link("acls").related})


def _filter(call: Call) -> AclFilter:
    query = call.query
    return AclFilter(
        ResourceType[query.get("resource_type", "ANY")],
        query.get("resource_name"),
        PatternType[query.get("pattern_type", "ANY")],
        query.get("principal"),
        query.get("host"),
        Operation[query.get("operation", "ANY")],
        Permission[query.get("permission", "ANY")],
    )


def _data(call: Call, acl: AclBinding) -> AclData:
    pattern, rule = acl
    return AclData(
        metadata=_metadata(call, acl),
        cluster_id=call.cluster_id,
        resource_type=pattern.resource_type.name,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type.name,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation.name,
        permission=rule.permission.name,
    )


def _metadata(call: Call, acl: AclBinding) -> Metadata:
    """Return the metadata of an entry: its address is the query that selects only it."""
    pattern, rule = acl
    fields = {
        "resource_type": pattern.resource_type.name,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permission": rule.permission.name,
    }
    query = urlencode(fields)
    return Metadata(url=f"{call.place.link('acls').related}?{query}", resource_name=f"{call.place.name}/acl={query}")
