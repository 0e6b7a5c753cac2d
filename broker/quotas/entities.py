"""The entities of quotas: users, clients, clients of users, and addresses, as requests and znodes name them.

An entity is a mapping from types (`user`, `client-id`, `ip`) to names; the name None is the default of its type. Its
path in the registry is that of `broker/settings/entities.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.errors import RequestError
from broker.settings.entities import CLIENTS, IPS, USERS
from protocol.error_codes import ErrorCode
from registry.znodes.configs import DEFAULT_ENTITY
from registry.znodes.sanitizer import desanitize, sanitize

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

Entity = Mapping[str, str | None]


def path_of(entity: Entity) -> str:
    """Return the path of an entity. Raises RequestError."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP in entity:
        if len(entity) > 1:
            raise _invalid("Invalid quota entity combination, IP entity should not be used with user/client ID entity.")
        return f"{IPS}/{element(entity[IP])}"
    client = f"{CLIENTS}/{element(entity[CLIENT_ID])}" if CLIENT_ID in entity else ""
    if USER not in entity:
        return client
    user = f"{USERS}/{element(entity[USER])}"
    return f"{user}/{client}" if client else user


def entity_of(path: str) -> dict[str, str | None]:
    """Return the entity with this path."""
    parts = path.split("/")
    kinds = {USERS: USER, CLIENTS: CLIENT_ID, IPS: IP}
    return {kinds[kind]: _name(text) for kind, text in zip(parts[::2], parts[1::2], strict=True)}


def paths_for(user: str, client_id: str) -> tuple[str, ...]:
    """Return the paths whose quotas apply to a client, in order of precedence. client_id: empty if it has none."""
    users = f"{USERS}/{sanitize(user)}", f"{USERS}/{DEFAULT_ENTITY}"
    if not client_id:
        return users
    clients = f"{CLIENTS}/{sanitize(client_id)}", f"{CLIENTS}/{DEFAULT_ENTITY}"
    of_users = [path for one in users for path in (*(f"{one}/{client}" for client in clients), one)]
    return (*of_users, *clients)


def element(name: str | None) -> str:
    """Return a name as an element of a path."""
    return DEFAULT_ENTITY if name is None else sanitize(name)


def _name(text: str) -> str | None:
    return None if text == DEFAULT_ENTITY else desanitize(text)


def _invalid(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, message)
