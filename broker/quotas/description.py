"""The filters of DescribeClientQuotas (KIP-546): which entities match them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from broker.errors import RequestError
from broker.quotas.entities import CLIENT_ID, IP, USER, Entity
from protocol.error_codes import ErrorCode
from protocol.messages.describe_client_quotas import ComponentData


class Match(IntEnum):
    """How a component of a filter matches the name of an entity."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


def check_filter(components: Sequence[ComponentData]) -> None:
    """Raise RequestError if a filter is invalid."""
    for component in components:
        is_known = Match.EXACT <= component.match_type <= Match.ANY
        if not is_known or (component.match_type == Match.EXACT and component.match is None):
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, "")  # as in Kafka
    kinds: list[str] = []
    for component in components:
        kind = component.entity_type
        if not kind:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if kind not in (USER, CLIENT_ID, IP):
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        if kind in kinds:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Duplicate {kind} filter component entity type")
        kinds.append(kind)
    if IP in kinds and len(kinds) > 1:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component.",
        )


def matches(entity: Entity, components: Sequence[ComponentData], *, strict: bool) -> bool:
    """Return whether an entity matches all components. strict: it must have no other types."""
    if strict and len(entity) != len(components):
        return False
    return all(_matches(entity, component) for component in components)


def _matches(entity: Entity, component: ComponentData) -> bool:
    if component.entity_type not in entity:
        return False
    name = entity[component.entity_type]
    if component.match_type == Match.DEFAULT:
        return name is None
    return component.match_type == Match.ANY or name == component.match
