"""The part of the admin client for quotas of users, client ids and addresses (KIP-546)."""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from client.admin.base import AdminBase
from client.errors import KafkaError, error_for
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


class Special(Enum):
    """Names of entities that are not names."""

    DEFAULT = "default"
    ANY = "any"


DEFAULT: Final = Special.DEFAULT
"""The default for all users, client ids or addresses that have no quota of their own."""
ANY: Final = Special.ANY
"""In a filter: every name, and the default."""

Name = str | Special | None

_TYPES: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}
_MATCH_TYPES: Final = {DEFAULT: 1, ANY: 2}
_MATCH_EXACTLY: Final = 0


class QuotaEntity(NamedTuple):
    """What a quota is for: a user, a client id, both, or an address. A name is text or DEFAULT; None if it has none."""

    user: Name = None
    client_id: Name = None
    ip: Name = None


class QuotaAdmin(AdminBase):
    """DescribeClientQuotas and AlterClientQuotas."""

    async def describe_client_quotas(
        self, *, user: Name = None, client_id: Name = None, ip: Name = None, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of the entities that have these names (DEFAULT and ANY are possible), by entity.

        strict: only entities without further types; by default, `user="alice"` also finds the clients of alice. Raises
        UnsupportedApiError for a broker older than 2.6.
        """
        components = []
        for kind, name in zip(_TYPES.values(), (user, client_id, ip), strict=True):
            if isinstance(name, Special):
                components.append(ComponentData(entity_type=kind, match_type=_MATCH_TYPES[name], match=None))
            elif name is not None:
                components.append(ComponentData(entity_type=kind, match_type=_MATCH_EXACTLY, match=name))
        request = DescribeClientQuotasRequest(components=components, strict=strict)

        async def ask() -> dict[QuotaEntity, dict[str, float]]:
            connection = await self._cluster.any_connection()
            response = await connection.call(request, DescribeClientQuotasResponse)
            if response.error_code:
                raise error_for(response.error_code, response.error_message, context="quotas")
            return {
                _entity({one.entity_type: one.entity_name for one in entry.entity}): {
                    value.key: value.value for value in entry.values
                }
                for entry in response.entries or ()
            }

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set quotas (None: remove one); the other quotas of an entity stay. Return None or the error for each entity.

        Raises UnsupportedApiError for a broker older than 2.6.
        """
        request = AlterClientQuotasRequest(
            entries=[_entry(entity, values) for entity, values in changes.items()], validate_only=validate_only
        )

        async def ask() -> dict[QuotaEntity, KafkaError | None]:
            connection = await self._cluster.any_connection()
            response = await connection.call(request, AlterClientQuotasResponse)
            outcomes: dict[QuotaEntity, KafkaError | None] = dict.fromkeys(changes)
            for one in response.entries:
                if one.error_code:
                    entity = _entity({part.entity_type: part.entity_name for part in one.entity})
                    error = error_for(one.error_code, one.error_message, context=f"quotas of {label(entity)}")
                    if error.retriable and len(changes) == 1:
                        raise error
                    outcomes[entity] = error
            return outcomes

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)


def label(entity: QuotaEntity) -> str:
    """Return an entity in words: "user alice, client id (default)"."""
    parts = [
        f"{kind.replace('-', ' ')} {'(default)' if isinstance(name, Special) else name}"
        for kind, name in zip(_TYPES.values(), entity, strict=True)
        if name is not None
    ]
    return ", ".join(parts)


def _entity(names: Mapping[str, str | None]) -> QuotaEntity:
    """Return the entity with these types and names; None is the default."""
    given = {field: names[kind] for field, kind in _TYPES.items() if kind in names}
    return QuotaEntity(**{field: DEFAULT if name is None else name for field, name in given.items()})


def _entry(entity: QuotaEntity, values: Mapping[str, float | None]) -> EntryData:
    return EntryData(
        entity=[
            EntityData(entity_type=kind, entity_name=None if isinstance(name, Special) else name)
            for kind, name in zip(_TYPES.values(), entity, strict=True)
            if name is not None
        ],
        ops=[
            OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
            for key, value in values.items()
        ],
    )
