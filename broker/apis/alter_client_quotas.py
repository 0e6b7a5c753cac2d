"""AlterClientQuotas: set and remove the quotas of users, clients and addresses (KIP-546). Any broker answers it."""

from __future__ import annotations

import asyncio
from functools import partial

from broker.errors import RequestError, unexpected_code
from broker.quotas.alteration import altered
from broker.quotas.entities import IP, element, path_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    ResponseEntityData,
    ResponseEntryData,
)


class AlterClientQuotasHandler(Handler[AlterClientQuotasRequest, AlterClientQuotasResponse]):
    """Changes the configs of entities."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
        """Change the entries in order; an error of one does not affect the others."""
        results: dict[frozenset[tuple[str, str | None]], ResponseEntryData] = {}
        for entry in request.entries:
            code, message = ErrorCode.NONE, None
            try:
                await self._alter(entry, validate_only=request.validate_only)
            except RequestError as error:
                code, message = error.code, str(error) or None
            except Exception as error:
                code, message = unexpected_code(error, "AlterClientQuotas"), str(error)
            results[frozenset(_entity(entry).items())] = _result(entry, code, message)
        return AlterClientQuotasResponse(entries=list(results.values()))

    async def _alter(self, entry: EntryData, *, validate_only: bool) -> None:
        entity = _entity(entry)
        path = path_of(entity)
        if entity.get(IP) is not None:
            await _check_address(element(entity[IP]))
        change = partial(altered, path, operations=entry.ops)
        entities = self._services.configs.entities
        if validate_only:
            change(await entities.read(path))
        else:
            await entities.alter(path, change)

    def failed(self, request: AlterClientQuotasRequest, code: ErrorCode) -> AlterClientQuotasResponse:
        """Return the answer with the error for every entry."""
        return AlterClientQuotasResponse(entries=[_result(entry, code, code.name) for entry in request.entries])


def _entity(entry: EntryData) -> dict[str, str | None]:
    """Return the entity of an entry; as in Kafka, the last name of a type counts."""
    return {one.entity_type: one.entity_name for one in entry.entity}


def _result(entry: EntryData, code: ErrorCode, message: str | None) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=code,
        error_message=message,
        entity=[ResponseEntityData(entity_type=kind, entity_name=name) for kind, name in _entity(entry).items()],
    )


async def _check_address(name: str) -> None:
    """Raise RequestError if a name is neither an address nor the name of a host."""
    try:
        await asyncio.get_running_loop().getaddrinfo(name, None)
    except (OSError, UnicodeError):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{name} is not a valid IP or resolvable host.") from None
