"""The broker's access to its registry: ZooKeeper if `zookeeper.connect` is set, else the embedded store.

On ZooKeeper, the session of a broker that was killed lives on until it times out, with its ephemeral registration. If
the broker restarts before that, it must neither take that registration for another live broker, nor replace the
registration of another broker that is really alive. The proof is the session's password, which only its owner has. The
log directories keep it in a file `zookeeper-session`, which Kafka ignores. It has three lines: 0, the session's id, and
its password, the last two hexadecimal.

A process that has locked the log directories may end the session that the file names. Only the file's owner may read
it: with the password, anyone could act in ZooKeeper in this broker's name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.settings.config import BrokerConfig
from broker.settings.zookeeper import load_zookeeper_security
from registry.embedded.store import EmbeddedStore
from registry.interface import Registry
from registry.zookeeper.address import ZooKeeperAddress
from security.secret import hides
from storage.errors import StorageError
from storage.file_system import FileSystem

if TYPE_CHECKING:
    from registry.embedded.session import EmbeddedRegistry
    from registry.zookeeper.registry import ZooKeeperRegistry

logger = logging.getLogger(__name__)

REGISTRY_FILE = "registry.sqlite"
SESSION_FILE = "zookeeper-session"
_VERSION = "0"


class RegistryAccess(Protocol):
    """A registry, and the operations of a broker on its session."""

    @property
    def registry(self) -> Registry:
        """The registry; the caller starts it."""

    @property
    def full(self) -> str | None:
        """Why the registry refuses writes that need more disk space; None if it does not."""

    def remember_session(self, directories: list[str]) -> None:
        """Write the proof that the session belongs to this broker into the log directories."""

    async def end_own_session(self, session_id: int, directories: list[str]) -> bool:
        """End a session of an earlier run of this broker; return False if nothing proves that it was this broker's."""

    async def close(self) -> None:
        """End the session; close the store behind it if no other broker uses it."""


async def open_registry(
    config: BrokerConfig, store: EmbeddedStore | None, fs: FileSystem, now_ms: Callable[[], int]
) -> RegistryAccess:
    """Return the registry of the settings, not started. store: shared by the brokers of a test."""
    if store is None and config.zookeeper_connect:
        return ZooKeeperAccess(config, fs)
    timeout_ms = config.zookeeper_session_timeout_ms
    if store is not None:
        return EmbeddedAccess(store.session(timeout_ms), store, owns_store=False)
    store = await EmbeddedStore.open(Path(config.log_dirs[0]) / REGISTRY_FILE, now_ms=now_ms)
    return EmbeddedAccess(store.session(timeout_ms), store, owns_store=True)


class EmbeddedAccess:
    """The embedded registry in this process: its sessions end with the process."""

    def __init__(self, registry: EmbeddedRegistry, store: EmbeddedStore, *, owns_store: bool) -> None:
        self.registry = registry
        self._store = store
        self._owns_store = owns_store

    @property
    def full(self) -> str | None:
        """Why the registry refuses writes that need more disk space; None if it does not."""
        return self._store.full

    def remember_session(self, directories: list[str]) -> None:
        """Do nothing: there will be no session to end."""

    async def end_own_session(self, session_id: int, directories: list[str]) -> bool:
        """Return False: an existing session belongs to another broker of this process."""
        return False

    async def close(self) -> None:
        """End the session; close the store if it belongs to this broker alone."""
        await self.registry.close()
        if self._owns_store:
            await self._store.close()


class ZooKeeperAccess:
    """The registry on ZooKeeper; kazoo is imported only here. Raises ConfigError for a store that cannot be used."""

    def __init__(self, config: BrokerConfig, fs: FileSystem) -> None:
        from registry.zookeeper.registry import ZooKeeperRegistry  # 12 ms and 2 MB of a start without ZooKeeper

        assert config.zookeeper_connect is not None
        self.registry: ZooKeeperRegistry = ZooKeeperRegistry(
            ZooKeeperAddress.parse(config.zookeeper_connect),
            config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms,
            max_in_flight=config.zookeeper_max_in_flight_requests,
            security=load_zookeeper_security(config),
        )
        self._fs = fs

    @property
    def full(self) -> str | None:
        """None: the disks of ZooKeeper are unknown."""
        return None

    def remember_session(self, directories: list[str]) -> None:
        """Write the session's id and password to the log directories and sync them, before anything is registered."""
        credentials = self.registry.credentials
        if credentials is None:
            return  # the session has expired, with everything that it owned
        data = SessionToken(*credentials).encode()
        for directory in directories:
            try:
                self._fs.replace_file(f"{directory}/{SESSION_FILE}", data, sync=True, private=True)
            except StorageError as error:
                logger.warning("after a crash this broker will have to wait for its session to expire: %s", error)

    async def end_own_session(self, session_id: int, directories: list[str]) -> bool:
        """End a session if one of the log directories holds its password."""
        for directory in directories:
            path = f"{directory}/{SESSION_FILE}"
            if not self._fs.exists(path):
                continue
            token = SessionToken.decode(self._fs.read_file(path))
            if token is None:
                logger.warning("%s is ignored: it names no session", path)
            elif token.session_id == session_id:
                logger.info("ending session 0x%x of an earlier run of this broker", session_id)
                await self.registry.end_session((token.session_id, token.password))
                return True
        return False

    async def close(self) -> None:
        """End the session."""
        await self.registry.close()


@hides("password")
class SessionToken(NamedTuple):
    """The proof that a session belongs to this broker."""

    session_id: int
    password: bytes

    def encode(self) -> bytes:
        """Return the content of the file."""
        return f"{_VERSION}\n{self.session_id & (1 << 64) - 1:x}\n{self.password.hex()}\n".encode()

    @classmethod
    def decode(cls, data: bytes) -> SessionToken | None:
        """Decode the content of a file; None if it is not valid."""
        try:
            version, session_id, password = data.decode().split("\n")[:3]
            number = int(session_id, 16)
            signed = number - (1 << 64) if number >> 63 else number
            return cls(signed, bytes.fromhex(password)) if version == _VERSION else None
        except ValueError:
            return None
