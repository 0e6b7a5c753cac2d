"""Znodes under /config: overrides of topics, brokers, users, clients and addresses.

The content of each is a flat object of strings. Names of users, clients and addresses are sanitized in the path;
`<default>` is the default entity of its kind. The node of a user or of the default user may have clients below it.
"""

from __future__ import annotations

from registry.errors import ZnodeFormatError
from registry.znodes.java_order import properties_order
from registry.znodes.sanitizer import sanitize
from registry.znodes.znode import Content, EmptyZnode, Znode, to_json
from security.secret import hides

DEFAULT_ENTITY = "<default>"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"


class ConfigsZnode(EmptyZnode):
    """Parent of all configs."""

    TEMPLATE = "/config"


class ConfigEntityTypeZnode(EmptyZnode):
    """Parent of all entities of one kind: topics, clients, users, brokers, ips."""

    TEMPLATE = "/config/{entity_type}"

    @staticmethod
    def path(entity_type: str) -> str:
        """Path for a kind of entity."""
        return f"/config/{entity_type}"


class UserClientsZnode(EmptyZnode):
    """Parent of one user's clients."""

    TEMPLATE = "/config/users/{user}/clients"


@hides("config")
class ConfigZnode(Znode):
    """The overrides of one entity. A node without data has none."""

    TEMPLATE = "/config/{entity_type}/{entity}"

    config: dict[str, str]

    @staticmethod
    def entity_path(entity_path: str) -> str:
        """Path for the entity path of a change notification, such as `users/alice/clients/app`."""
        return f"/config/{entity_path}"

    def encode(self) -> bytes:
        """JSON, the overrides in the order of java.util.Properties."""
        config = {name: self.config[name] for name in properties_order(self.config)}
        return to_json({"version": 1, "config": config})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ConfigZnode:
        """Read version 1; without data or without `config` there are no overrides."""
        if data is None:
            return cls(config={})
        content = Content.parse(data, path)
        return cls(config=content.string_map("config") if content.has("config") else {})


class TopicConfigZnode(ConfigZnode):
    """Overrides of a topic."""

    TEMPLATE = "/config/topics/{topic}"

    @staticmethod
    def path(topic: str) -> str:
        """Path for a topic."""
        return f"/config/topics/{topic}"


class BrokerConfigZnode(ConfigZnode):
    """Dynamic configs of a broker, or of all brokers."""

    TEMPLATE = "/config/brokers/{broker}"

    @staticmethod
    def path(broker: int | None) -> str:
        """Path for a broker id, None for the default of all."""
        return f"/config/brokers/{DEFAULT_ENTITY if broker is None else broker}"


class ClientConfigZnode(ConfigZnode):
    """Quotas of a client id."""

    TEMPLATE = "/config/clients/{client}"

    @staticmethod
    def path(client: str | None) -> str:
        """Path for a client id, None for the default."""
        return f"/config/clients/{_element(client)}"


class UserConfigZnode(ConfigZnode):
    """Quotas and SCRAM credentials of a user."""

    TEMPLATE = "/config/users/{user}"

    @staticmethod
    def path(user: str | None) -> str:
        """Path for a user, None for the default."""
        return f"/config/users/{_element(user)}"


class UserClientConfigZnode(ConfigZnode):
    """Quotas of a client id of a user."""

    TEMPLATE = "/config/users/{user}/clients/{client}"

    @staticmethod
    def path(user: str | None, client: str | None) -> str:
        """Path for a user and a client id, None for the default of either."""
        return f"/config/users/{_element(user)}/clients/{_element(client)}"


class IpConfigZnode(ConfigZnode):
    """Quotas of an address."""

    TEMPLATE = "/config/ips/{ip}"

    @staticmethod
    def path(ip: str | None) -> str:
        """Path for an address, None for the default."""
        return f"/config/ips/{_element(ip)}"


class ConfigChangesZnode(EmptyZnode):
    """Parent of the change notifications."""

    TEMPLATE = "/config/changes"


class ConfigChangeZnode(Znode):
    """Notifies brokers that an entity's config has changed. Sequential, removed after 15 minutes.

    Version 1 has the name of a topic or client; version 2 has the path below /config.
    """

    TEMPLATE = "/config/changes/config_change_{sequence}"

    entity_path: str
    version: int = 2

    @staticmethod
    def path(sequence: str = "") -> str:
        """Path for a sequence number; without, the prefix to create one."""
        return f"{CONFIG_CHANGE_PREFIX}{sequence}"

    def encode(self) -> bytes:
        """JSON in Kafka's order."""
        if self.version == 1:
            entity_type, _slash, name = self.entity_path.partition("/")
            return to_json({"version": 1, "entity_type": entity_type, "entity_name": name})
        return to_json({"version": 2, "entity_path": self.entity_path})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ConfigChangeZnode:
        """Read versions 1 and 2."""
        content = Content.parse(data, path)
        version = content.version(1, 2)
        if version == 1:
            entity_type = content.string("entity_type")
            if entity_type not in ("topics", "clients"):
                content.fail("entity_type", "must be topics or clients in version 1")
            return cls(entity_path=f"{entity_type}/{content.string('entity_name')}", version=1)
        entity_path = content.string("entity_path")
        if not entity_path.partition("/")[2]:
            raise ZnodeFormatError(path, f"entity_path must be a kind and a name: {entity_path!r}")
        return cls(entity_path=entity_path)


def _element(name: str | None) -> str:
    return DEFAULT_ENTITY if name is None else sanitize(name)
