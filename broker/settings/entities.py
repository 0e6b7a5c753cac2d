"""The dynamic configs of users, clients and addresses: quotas and, in those of users, SCRAM credentials.

The registry has them under `/config/users`, `/config/clients` and `/config/ips`. The path of an entity is that of its
znode below `/config`, with sanitized names: `users/alice`, `users/<default>/clients/app`, `ips/10.0.0.1`. Several parts
of the broker keep values in one znode, so a change replaces only its own values and is written only if the znode has
not changed meanwhile.

Values may be credentials: this module writes none of them to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from registry.errors import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError, ZnodeFormatError
from registry.interface import Registry
from registry.pipeline import read_all
from registry.repeated_writes import RepeatedWrites
from registry.znodes.configs import ConfigEntityTypeZnode, ConfigZnode

logger = logging.getLogger(__name__)

USERS = "users"
CLIENTS = "clients"
IPS = "ips"
KINDS = (USERS, CLIENTS, IPS)

Config = Mapping[str, str]
Subscriber = Callable[[str, Config], None]
"""Called with the path of an entity and its config, which is empty if the entity has none any more.

An exception is logged without its text and without the config: both may be secret. The other subscribers are called.
"""


class EntityConfigs:
    """The configs of all users, clients and addresses, and their changes."""

    def __init__(self, registry: Registry, notify: Callable[[str], Awaitable[None]]) -> None:
        """notify: tells every broker that the config at a znode's path has changed."""
        self._registry = registry
        self._writes = RepeatedWrites(registry)
        self._notify = notify
        self._configs: dict[str, dict[str, str]] = {}
        self._subscribers: list[Subscriber] = []

    def __getitem__(self, path: str) -> Config:
        """The config of an entity as this broker knows it; empty if it has none."""
        return self._configs.get(path, {})

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` for every config that is known, and again after each change."""
        self._subscribers.append(subscriber)
        for path, config in self._configs.items():
            _call(subscriber, path, config)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def load_all(self) -> None:
        """Read all configs from the registry."""
        configs = await self.read_all()
        for path in [*configs, *(self._configs.keys() - configs.keys())]:
            self._apply(path, configs.get(path, {}))

    async def load(self, path: str) -> None:
        """Read the config of one entity after a notification. A path that is not that of an entity is ignored."""
        if not is_entity_path(path):
            logger.error("a change of the config of %r is ignored: it is not a user, client or address", path)
            return
        self._apply(path, (await self._read(path))[0])

    async def read_all(self) -> dict[str, dict[str, str]]:
        """Return all configs that are not empty by their paths, as the registry has them now."""
        paths: list[str] = []
        for kind in KINDS:
            names = sorted(await self._children(kind))
            paths += [f"{kind}/{name}" for name in names]
            if kind == USERS:
                parents = [f"{USERS}/{name}/{CLIENTS}" for name in names]
                for parent, clients in zip(parents, await read_all(self._children, parents), strict=True):
                    paths += [f"{parent}/{client}" for client in sorted(clients)]
        configs = await read_all(self._read, paths)
        return {path: config for path, (config, _) in zip(paths, configs, strict=True) if config}

    async def read(self, path: str) -> dict[str, str]:
        """Return the config of one entity as the registry has it now."""
        return (await self._read(path))[0]

    async def _read(self, path: str) -> tuple[dict[str, str], int | None]:
        """Return the config of one entity and the version of its znode, None if there is no znode."""
        znode = ConfigZnode.entity_path(path)
        try:
            data, stat = await self._registry.get(znode)
        except NoNodeError:
            return {}, None
        try:
            return ConfigZnode.decode(data, znode).config, stat.version
        except ZnodeFormatError:
            logger.error("the config in %s is ignored: it is not valid", znode)  # without the text: it may be secret
            return {}, stat.version

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._registry.children(ConfigEntityTypeZnode.path(path))
        except NoNodeError:
            return []

    def _apply(self, path: str, config: dict[str, str]) -> None:
        if config == self._configs.get(path, {}):
            return
        if config:
            self._configs[path] = config
        else:
            del self._configs[path]
        for subscriber in self._subscribers:
            _call(subscriber, path, config)

    # -- writing -------------------------------------------------------------------------------------------------------

    async def alter(self, path: str, change: Callable[[Config], dict[str, str]]) -> None:
        """Replace the config of an entity with `change(config)`, and notify every broker.

        As in Kafka, an entity whose last value is removed disappears, unless it is a user with clients, and every call
        sends a notification, also one that changes nothing. `change` is called again if the config has been changed
        meanwhile; its exceptions are passed on.
        """
        while True:
            current, version = await self._read(path)
            changed = change(current)
            try:
                await self._write(path, changed, version)
                break
            except (BadVersionError, NodeExistsError, NoNodeError):
                await self._registry.sync()  # changed meanwhile; a ZooKeeper server may lag behind that
        await self._notify(ConfigZnode.entity_path(path))
        self._apply(path, changed)

    async def _write(self, path: str, config: dict[str, str], version: int | None) -> None:
        znode = ConfigZnode.entity_path(path)
        if config and version is None:
            await self._writes.create(znode, ConfigZnode(config=config).encode(), make_parents=True)
        elif config:
            await self._writes.set(znode, ConfigZnode(config=config).encode(), _known(version))
        elif version is not None and not await self._delete(path, version):
            await self._writes.set(znode, ConfigZnode(config={}).encode(), version)

    async def _delete(self, path: str, version: int) -> bool:
        """Delete an entity without children, and then the user and its parent of clients if nothing is left of them."""
        try:
            await self._writes.delete(ConfigZnode.entity_path(path), version)
        except NotEmptyError:
            return False
        user, separator, _ = path.partition(f"/{CLIENTS}/")
        if separator:
            try:
                await self._writes.delete(ConfigZnode.entity_path(f"{user}/{CLIENTS}"))
                config, user_version = await self._read(user)
                if not config and user_version is not None:
                    await self._writes.delete(ConfigZnode.entity_path(user), user_version)
            except (NotEmptyError, NoNodeError, BadVersionError):
                pass  # still in use
        return True


def is_entity_path(path: str) -> bool:
    """Return whether this is the path of a user, a client, an address, or a client of a user."""
    parts = path.split("/")
    if not all(parts) or "." in parts or ".." in parts:
        return False
    if len(parts) == 2:
        return parts[0] in KINDS
    return len(parts) == 4 and parts[0] == USERS and parts[2] == CLIENTS


def _call(subscriber: Subscriber, path: str, config: Config) -> None:
    try:
        subscriber(path, config)
    except Exception as error:  # one bad value must not end the broker
        name = getattr(subscriber, "__qualname__", type(subscriber).__name__)
        logger.error("the config of %s is not applied by %s: %s", path, name, type(error).__name__)


def _known(version: int | None) -> int:
    assert version is not None
    return version
