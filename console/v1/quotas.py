"""Quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from client.admin.quotas import DEFAULT, QuotaEntity, Special
from client.admin.quotas import Name as EntityName
from console.rest.call import Call
from console.rest.models import Answer, Asked, Name
from console.rest.operation import ApiOperation, Right
from security.acls.types import Operation

Text = Annotated[str, Field(min_length=1, max_length=255)]


class EntityQuotas(Answer):
    """The quotas of an entity: a user, a client id, both, or an address. A name is null if the entity has none of this
    type; is_default: the types whose name is "all that have no quota of their own".
    """

    user: str | None
    client_id: str | None
    ip: str | None
    is_default: list[str]
    quotas: dict[str, float]


class Quotas(Answer):
    """All quotas."""

    entities: list[EntityQuotas]


class AskedQuotas(Asked):
    """Quotas to set (null: remove) for an entity, named as in the answer. Its other quotas stay."""

    user: Text | None = None
    client_id: Text | None = None
    ip: Text | None = None
    is_default: Annotated[list[str], Field(default_factory=list, max_length=3)]
    quotas: Annotated[
        dict[Name, Annotated[float, Field(gt=0, allow_inf_nan=False)] | None], Field(min_length=1, max_length=20)
    ]

    @model_validator(mode="after")
    def _has_one_entity(self) -> Self:
        names = {"user": self.user, "client_id": self.client_id, "ip": self.ip}
        if unknown := [one for one in self.is_default if one not in names]:
            raise ValueError(f"is_default contains user, client_id and ip, not {unknown[0]}")
        if double := [one for one in self.is_default if names[one] is not None]:
            raise ValueError(f"give {double[0]} a name, or name it in is_default, not both")
        given = {name for name, value in names.items() if value is not None} | set(self.is_default)
        if not given or ("ip" in given and len(given) > 1):
            raise ValueError("name a user, a client_id, both, or an ip")
        return self

    def entity(self) -> QuotaEntity:
        """Return the entity for the admin client."""
        return QuotaEntity(*(self._name(one) for one in ("user", "client_id", "ip")))

    def _name(self, field: str) -> EntityName:
        found: str | None = getattr(self, field)
        return DEFAULT if field in self.is_default else found


async def list_quotas(call: Call) -> Quotas:
    """List the quotas of all entities."""
    found = [_entity(one, values) for one, values in (await call.admin.describe_client_quotas()).items()]
    return Quotas(entities=sorted(found, key=lambda one: (one.user or "", one.client_id or "", one.ip or "")))


async def alter_quotas(call: Call) -> None:
    """Set and remove quotas of an entity."""
    asked: AskedQuotas = call.asked
    for error in (await call.admin.alter_client_quotas({asked.entity(): asked.quotas})).values():
        if error is not None:
            raise error


def _entity(entity: QuotaEntity, values: dict[str, float]) -> EntityQuotas:
    names = {name: None if isinstance(one, Special) else one for name, one in entity._asdict().items()}
    default = [name for name, one in entity._asdict().items() if isinstance(one, Special)]
    return EntityQuotas(**names, is_default=default, quotas=dict(sorted(values.items())))


OPERATIONS: Final = (
    ApiOperation("GET", "/quotas", list_quotas, Right(Operation.DESCRIBE_CONFIGS), Quotas),
    ApiOperation("POST", "/quotas:alter", alter_quotas, Right(Operation.ALTER_CONFIGS), status=204, takes=AskedQuotas),
)
