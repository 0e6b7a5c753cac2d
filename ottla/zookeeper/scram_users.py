"""SCRAM users in a registry without a broker: for the first users of a cluster, whose brokers log in by SCRAM."""

import contextlib
import secrets
from collections.abc import Iterable

from broker.authentication.scram_changes import MECHANISMS_BY_TYPE, Result, alter_credentials
from broker.authentication.scram_credentials import credentials_in, user_of
from broker.settings.entities import EntityConfigs
from ottla.command_line.failure import CommandError
from protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
from registry.errors import NodeExistsError
from registry.interface import Registry
from registry.znodes.configs import ConfigChangesZnode, ConfigChangeZnode


async def _entities(registry: Registry) -> EntityConfigs:
    async def notify(path: str) -> None:
        change = ConfigChangeZnode(entity_path=path.removeprefix("/config/"))
        await registry.create(ConfigChangeZnode.path(), change.encode(), sequence=True)

    with contextlib.suppress(NodeExistsError):
        await registry.create(ConfigChangesZnode.TEMPLATE, make_parents=True)
    return EntityConfigs(registry, notify)


async def scram_users(registry: Registry) -> dict[str, dict[str, int]]:
    """Return the iterations by mechanism of every user that has a credential."""
    found = {}
    for path, config in (await EntityConfigs(registry, _nothing).read_all()).items():
        user = user_of(path)
        if user is not None and (credentials := credentials_in(config, user)):
            found[user] = {name: credential.iterations for name, credential in credentials.items()}
    return found


async def _nothing(path: str) -> None:
    """A reader notifies nobody."""


async def set_password(
    registry: Registry, user: str, password: str, mechanisms: Iterable[str], iterations: int
) -> None:
    """Create a user, or change its password, and notify the brokers. Raises CommandError."""
    upsertions = []
    for mechanism in MECHANISMS_BY_TYPE.values():
        if mechanism.name in mechanisms:
            salt = secrets.token_bytes(20)
            salted = mechanism.salted_password(password, salt, iterations)
            upsertions.append(
                ScramCredentialUpsertion(
                    name=user, mechanism=mechanism.type, iterations=iterations, salt=salt, salted_password=salted
                )
            )
    _check(user, await alter_credentials(await _entities(registry), [], upsertions))


async def remove(registry: Registry, user: str, mechanisms: Iterable[str]) -> None:
    """Delete a user's credentials, and notify the brokers. Raises CommandError."""
    deletions = [
        ScramCredentialDeletion(name=user, mechanism=one.type)
        for one in MECHANISMS_BY_TYPE.values()
        if one.name in mechanisms
    ]
    _check(user, await alter_credentials(await _entities(registry), deletions, []))


def _check(user: str, results: dict[str, Result]) -> None:
    for result in results.values():
        if result.code:
            raise CommandError(f"{user}: {result.message}")
