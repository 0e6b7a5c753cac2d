"""Dynamic settings of topics and brokers: stored in the registry, cached here, updated by notifications.

Those of users, clients and addresses are in `entities`; the notifications are the same.

As in Kafka, a change is written in two steps: the entity's znode, then a sequential znode under /config/changes, which
notifies every broker. The creation of a topic needs no notification: brokers read the topic's settings when they get
replicas of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from broker.change_notifications import ChangeNotifications
from broker.settings.config import BrokerConfig
from broker.settings.dynamic import DynamicBrokerConfig
from broker.settings.entities import KINDS, EntityConfigs
from broker.settings.stored_passwords import StoredPasswords
from client.wire.backoff import Backoff
from registry.errors import BadVersionError, NodeExistsError, NoNodeError, ZnodeFormatError
from registry.interface import Registry
from registry.pipeline import read_all
from registry.repeated_writes import RepeatedWrites
from registry.znodes.configs import (
    BrokerConfigZnode,
    ConfigChangesZnode,
    ConfigChangeZnode,
    ConfigEntityTypeZnode,
    TopicConfigZnode,
)
from storage.log.config import LogConfig
from storage.setting import ConfigError

logger = logging.getLogger(__name__)

Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""A function from the stored settings to the settings to store. Its exceptions are passed on; nothing changes then."""


class ConfigStore:
    """The dynamic settings that this broker has read."""

    def __init__(
        self, broker_id: int, config: BrokerConfig, registry: Registry, now_ms: Callable[[], int], backoff: Backoff
    ) -> None:
        self.dynamic = DynamicBrokerConfig(config)
        self.entities = EntityConfigs(registry, self._notify)
        """The configs of users, clients and addresses."""
        self.on_topic_changed: Callable[[str], None] = lambda topic: None
        self.on_broker_changed: Callable[[], None] = lambda: None
        self.on_broker_loaded: Callable[[], None] = lambda: None
        """Called also if no value has changed: a file that is named by a setting may be a new one."""
        self._passwords = StoredPasswords(config)
        self._broker_id = broker_id
        self._registry = registry
        self._writes = RepeatedWrites(registry)
        self._topics: dict[str, dict[str, str]] = {}
        self._log_configs: dict[str, LogConfig] = {}
        self._notifications = ChangeNotifications(
            registry, {ConfigChangesZnode.TEMPLATE: self._load_changed}, "settings", now_ms, backoff
        )

    # -- reading ---------------------------------------------------------------------------------------------------

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings, empty if they are not loaded."""
        return self._topics.get(topic, {})

    def topic_config(self, topic: str) -> LogConfig:
        """Return the topic's settings with this broker's defaults."""
        config = self._log_configs.get(topic)
        if config is None:
            try:
                config = self.dynamic.config.log_config(self._topics.get(topic, {}))
            except ConfigError as error:
                logger.error("settings of topic %s are ignored: %s", topic, error)
                config = self.dynamic.config.log_config()
            self._log_configs[topic] = config
        return config

    async def load_topic(self, topic: str) -> None:
        """Read a topic's settings from the registry."""
        overrides = await self.read_topic(topic)
        if overrides != self._topics.get(topic, {}):
            self._topics[topic] = overrides
            self._log_configs.pop(topic, None)
            self.on_topic_changed(topic)

    async def load_topics(self, topics: Iterable[str], created: Collection[str] = ()) -> None:
        """Read the settings of topics that are not loaded yet, or that have just been created."""
        unknown = [topic for topic in topics if topic not in self._topics or topic in created]
        if unknown:
            await self.see_latest()  # the controller knows of topics that a lagging ZooKeeper server does not have yet
        await read_all(self.load_topic, unknown)
        for topic in unknown:
            self._topics.setdefault(topic, {})

    def forget_topic(self, topic: str) -> None:
        """Drop the settings of a deleted topic; a new topic may have the same name."""
        self._topics.pop(topic, None)
        self._log_configs.pop(topic, None)

    async def see_latest(self) -> None:
        """Let the reads that follow see what other brokers have written before this call."""
        await self._registry.sync()

    async def read_topic(self, topic: str) -> dict[str, str]:
        """Read a topic's own settings from the registry."""
        return (await self._read(TopicConfigZnode.path(topic)))[0]

    async def read_broker(self, broker_id: int | None) -> dict[str, str]:
        """Read a broker's own dynamic settings, or those of all brokers (None), from the registry.

        Passwords are decrypted; those that cannot be are left out.
        """
        return self._passwords.decrypted((await self._read(BrokerConfigZnode.path(broker_id)))[0])

    async def _read(self, path: str) -> tuple[dict[str, str], int | None]:
        """Return the settings in a znode and its version, None if there is no znode."""
        try:
            data, stat = await self._registry.get(path)
        except NoNodeError:
            return {}, None
        try:
            return TopicConfigZnode.decode(data, path).config, stat.version
        except ZnodeFormatError as error:
            logger.error("settings are ignored: %s", error)
            return {}, stat.version

    async def load_broker(self) -> None:
        """Read this broker's dynamic settings from the registry and apply them."""
        per_broker = await self.read_broker(self._broker_id)
        cluster_wide = await self.read_broker(None)
        changed, warnings = self.dynamic.apply(per_broker=per_broker, cluster_wide=cluster_wide)
        for warning in warnings:
            logger.warning(warning)
        if changed:
            logger.info("dynamic settings changed: %s", ", ".join(sorted(changed)))
            self._log_configs.clear()
            self.on_broker_changed()
        self.on_broker_loaded()

    # -- writing ---------------------------------------------------------------------------------------------------

    async def alter_topic(self, topic: str, change: Change) -> None:
        """Replace a topic's settings with `change(settings)`, and notify every broker."""
        path = TopicConfigZnode.path(topic)
        await self._alter(path, change)
        await self._notify(path)
        await self.load_topic(topic)

    async def alter_broker(self, broker_id: int | None, change: Change) -> None:
        """Replace a broker's dynamic settings (None: those of all brokers) with `change(settings)`, and notify.

        `change` gets and returns passwords that are not encrypted.
        """
        path = BrokerConfigZnode.path(broker_id)
        passwords = self._passwords
        await self._alter(path, lambda stored: passwords.encrypted(change(passwords.decrypted(stored))))
        await self._notify(path)
        await self.load_broker()

    async def create_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Write the settings of a topic that is about to be created."""
        await self._alter(TopicConfigZnode.path(topic), lambda _: overrides)

    async def _alter(self, path: str, change: Change) -> None:
        """Replace the settings in a znode. If another broker has done so meanwhile, call `change` again with those."""
        while True:
            stored, version = await self._read(path)
            data = TopicConfigZnode(config=dict(change(stored))).encode()
            try:
                if version is None:
                    await self._writes.create(path, data, make_parents=True)
                else:
                    await self._writes.set(path, data, version)
            except (BadVersionError, NodeExistsError, NoNodeError):
                await self._registry.sync()
            else:
                return

    async def _notify(self, path: str) -> None:
        change = ConfigChangeZnode(entity_path=path.removeprefix("/config/"))
        await self._writes.append(ConfigChangeZnode.path(), change.encode())

    # -- notifications ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load all settings; earlier notifications need not be processed then."""
        await self._notifications.skip()
        if self._passwords.has_old_secret:
            await self._use_new_secret()
        await self.load_broker()
        await self.entities.load_all()
        await self.load_topics(await self._registry.children(ConfigEntityTypeZnode.path("topics")))

    async def _use_new_secret(self) -> None:
        """Encrypt the passwords of password.encoder.old.secret with the new secret."""
        path = BrokerConfigZnode.path(self._broker_id)
        stored, _ = await self._read(path)
        if self._passwords.with_new_secret(stored) != stored:
            await self._alter(path, self._passwords.with_new_secret)

    async def reload(self) -> None:
        """Reload all settings: without a session, this broker may have missed notifications."""
        await self.load_broker()
        await self.entities.load_all()
        await read_all(self.load_topic, list(self._topics))

    async def run(self) -> None:
        """Process notifications until cancelled."""
        await self._notifications.run()

    async def _load_changed(self, data: bytes | None, path: str) -> None:
        """Read what a notification names."""
        entity_path = ConfigChangeZnode.decode(data, path).entity_path
        entity_type, _, entity = entity_path.partition("/")
        if entity_type == "topics":
            await self.load_topic(entity)
        elif entity_type == "brokers":
            await self.load_broker()
        elif entity_type in KINDS:
            await self.entities.load(entity_path)
