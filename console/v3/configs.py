"""Settings of topics, of one broker, and the dynamic defaults of all brokers ("broker-configs").

The three kinds differ in their models and in what owns the settings; the rest is the same.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from client.admin.types import ConfigChange, ConfigEntry, ConfigOperation, ResourceType
from client.errors import KafkaError, error_for
from console.rest.call import Call
from console.rest.errors import not_found
from console.rest.every_broker import ask_every_broker
from console.rest.models import Answer, Asked, Listing, Metadata, Name
from console.rest.place import Place, broker_place, topic_place
from console.v3.brokers import live_broker
from protocol.error_codes import ErrorCode
from security.acls.types import Operation
from security.acls.types import ResourceType as AclResourceType

ALL_BROKERS = ""
"""The name of the dynamic defaults of all brokers in Kafka's protocol."""


class Synonym(Answer):
    """A setting that the value may come from."""

    name: str
    value: str | None
    source: str


class ConfigData(Answer):
    """A setting. `value` is null if it is sensitive."""

    metadata: Metadata
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[Synonym]


class TopicConfigData(ConfigData):
    """A setting of a topic."""

    kind: Literal["KafkaTopicConfig"] = "KafkaTopicConfig"
    topic_name: str


class TopicConfigList(Listing[TopicConfigData]):
    """Settings of topics."""

    kind: Literal["KafkaTopicConfigList"] = "KafkaTopicConfigList"


class BrokerConfigData(ConfigData):
    """A setting of a broker."""

    kind: Literal["KafkaBrokerConfig"] = "KafkaBrokerConfig"
    broker_id: int


class BrokerConfigList(Listing[BrokerConfigData]):
    """Settings of brokers."""

    kind: Literal["KafkaBrokerConfigList"] = "KafkaBrokerConfigList"


class ClusterConfigData(ConfigData):
    """A dynamic default of all brokers."""

    kind: Literal["KafkaClusterConfig"] = "KafkaClusterConfig"
    config_type: str


class ClusterConfigList(Listing[ClusterConfigData]):
    """Dynamic defaults of all brokers."""

    kind: Literal["KafkaClusterConfigList"] = "KafkaClusterConfigList"


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


class AlteredConfig(Asked):
    """A change of a setting. The operation is SET by default."""

    name: Name
    value: str | None = Field(default=None, repr=False)
    operation: Annotated[Literal["SET", "DELETE", "APPEND", "SUBTRACT"] | None, BeforeValidator(_upper)] = None

    def change(self) -> ConfigChange:
        """Return the change for the admin client."""
        return ConfigChange(self.name, self.value, ConfigOperation[self.operation or "SET"])


class AlterConfigs(Asked):
    """Changes of settings: all or none of them are made."""

    data: Annotated[list[AlteredConfig], Field(min_length=1)]
    validate_only: bool = False


class UpdateConfig(Asked):
    """The new value of a setting."""

    value: str | None = Field(default=None, repr=False)


class _Owner(NamedTuple):
    """What owns settings."""

    resource: ResourceType
    name: str
    place: Place
    collection: str = "configs"


# -- topics -----------------------------------------------------------------------------------------------------------


async def list_topic_configs(call: Call) -> TopicConfigList:
    """List the settings of a topic."""
    owner = _topic(call, call.topic_name)
    data = [_of_topic(call, owner, one) for one in (await _entries(call, owner)).values()]
    return TopicConfigList(metadata=owner.place.listed("configs"), data=data)


async def list_configs_of_all_topics(call: Call) -> TopicConfigList:
    """List the settings of all topics."""
    data = []
    names = [name for name in await call.topics() if _may_read(call, name)]
    for name, entries in (await call.admin.describe_topic_configs(names, include_synonyms=True)).items():
        if isinstance(entries, KafkaError):
            if entries.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue  # deleted in between
            raise entries
        data += [_of_topic(call, _topic(call, name), one) for one in entries.values()]
    return TopicConfigList(metadata=call.place.listed("topics", "-", "configs"), data=data)


async def get_topic_config(call: Call) -> TopicConfigData:
    """Describe a setting of a topic."""
    owner = _topic(call, call.topic_name)
    return _of_topic(call, owner, await _entry(call, owner))


async def update_topic_config(call: Call) -> None:
    """Set a setting of a topic."""
    await _update(call, _topic(call, call.topic_name))


async def reset_topic_config(call: Call) -> None:
    """Reset a setting of a topic to its default."""
    await _reset(call, _topic(call, call.topic_name))


async def alter_topic_configs(call: Call) -> None:
    """Set and reset settings of a topic: all or none."""
    await _alter(call, _topic(call, call.topic_name))


# -- brokers ----------------------------------------------------------------------------------------------------------


async def list_broker_configs(call: Call) -> BrokerConfigList:
    """List the settings of a broker."""
    owner = await _broker(call)
    data = [_of_broker(call, owner, one) for one in (await _entries(call, owner)).values()]
    return BrokerConfigList(metadata=owner.place.listed("configs"), data=data)


async def list_configs_of_all_brokers(call: Call) -> BrokerConfigList:
    """List the settings of all live brokers."""
    found = await ask_every_broker(call, lambda broker_id: _entries(call, _broker_owner(call, broker_id)))
    data = [
        _of_broker(call, _broker_owner(call, broker_id), one)
        for broker_id, part in found.items()
        for one in part.values()
    ]
    return BrokerConfigList(metadata=call.place.listed("brokers", "-", "configs"), data=data)


async def get_broker_config(call: Call) -> BrokerConfigData:
    """Describe a setting of a broker."""
    owner = await _broker(call)
    return _of_broker(call, owner, await _entry(call, owner))


async def update_broker_config(call: Call) -> None:
    """Set a dynamic setting of a broker."""
    await _update(call, await _broker(call))


async def reset_broker_config(call: Call) -> None:
    """Remove a dynamic setting of a broker."""
    await _reset(call, await _broker(call))


async def alter_broker_configs(call: Call) -> None:
    """Set and remove dynamic settings of a broker: all or none."""
    await _alter(call, await _broker(call))


# -- the cluster ------------------------------------------------------------------------------------------------------


async def list_cluster_configs(call: Call) -> ClusterConfigList:
    """List the dynamic defaults of all brokers."""
    owner = _cluster(call)
    data = [_of_cluster(call, owner, one) for one in (await _entries(call, owner)).values()]
    return ClusterConfigList(metadata=call.place.listed(owner.collection), data=data)


async def get_cluster_config(call: Call) -> ClusterConfigData:
    """Describe a dynamic default of all brokers. 404 if it is not set."""
    owner = _cluster(call)
    return _of_cluster(call, owner, await _entry(call, owner))


async def update_cluster_config(call: Call) -> None:
    """Set a dynamic default of all brokers."""
    await _update(call, _cluster(call))


async def reset_cluster_config(call: Call) -> None:
    """Remove a dynamic default of all brokers."""
    await _reset(call, _cluster(call))


async def alter_cluster_configs(call: Call) -> None:
    """Set and remove dynamic defaults of all brokers: all or none."""
    await _alter(call, _cluster(call))


def _may_read(call: Call, topic: str) -> bool:
    return call.rights.sees(Operation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, topic)


# -- what the three kinds share ---------------------------------------------------------------------------------------


def _topic(call: Call, name: str) -> _Owner:
    return _Owner(ResourceType.TOPIC, name, topic_place(call.place, name))


async def _broker(call: Call) -> _Owner:
    return _broker_owner(call, (await live_broker(call)).node_id)


def _broker_owner(call: Call, broker_id: int) -> _Owner:
    return _Owner(ResourceType.BROKER, str(broker_id), broker_place(call.place, broker_id))


def _cluster(call: Call) -> _Owner:
    return _Owner(ResourceType.BROKER, ALL_BROKERS, call.place, "broker-configs")


async def _entries(call: Call, owner: _Owner, keys: list[str] | None = None) -> dict[str, ConfigEntry]:
    return await call.admin.describe_configs(owner.resource, owner.name, keys, include_synonyms=True)


async def _entry(call: Call, owner: _Owner) -> ConfigEntry:
    name = call.text("name")
    found = await _entries(call, owner, [name])
    if name not in found:
        raise not_found(f"{owner.resource.name.lower()} {owner.name or 'default'} has no setting {name}")
    return found[name]


async def _update(call: Call, owner: _Owner) -> None:
    asked: UpdateConfig = call.asked
    await _change(call, owner, [ConfigChange(call.text("name"), asked.value)])


async def _reset(call: Call, owner: _Owner) -> None:
    await _change(call, owner, [ConfigChange(call.text("name"), None, ConfigOperation.DELETE)])


async def _alter(call: Call, owner: _Owner) -> None:
    asked: AlterConfigs = call.asked
    await _change(call, owner, [one.change() for one in asked.data], validate_only=asked.validate_only)


async def _change(call: Call, owner: _Owner, changes: list[ConfigChange], *, validate_only: bool = False) -> None:
    for one in changes:
        if one.value is None and one.operation is not ConfigOperation.DELETE:
            raise error_for(ErrorCode.INVALID_REQUEST, f"{one.name} needs a value; to reset it, use DELETE")
    await call.admin.incremental_alter_configs(owner.resource, owner.name, changes, validate_only=validate_only)


def _of_topic(call: Call, owner: _Owner, entry: ConfigEntry) -> TopicConfigData:
    return TopicConfigData(**_fields(call, owner, entry), topic_name=owner.name)


def _of_broker(call: Call, owner: _Owner, entry: ConfigEntry) -> BrokerConfigData:
    return BrokerConfigData(**_fields(call, owner, entry), broker_id=int(owner.name))


def _of_cluster(call: Call, owner: _Owner, entry: ConfigEntry) -> ClusterConfigData:
    return ClusterConfigData(**_fields(call, owner, entry), config_type=entry.type.name)


def _fields(call: Call, owner: _Owner, entry: ConfigEntry) -> dict[str, Any]:
    return {
        "metadata": owner.place.part(owner.collection, entry.name, "config").metadata,
        "cluster_id": call.cluster_id,
        "name": entry.name,
        "value": entry.value,
        "is_default": entry.is_default,
        "is_read_only": entry.read_only,
        "is_sensitive": entry.is_sensitive,
        "source": entry.source.name,
        "synonyms": [Synonym(name=name, value=value, source=source.name) for name, value, source in entry.synonyms],
    }
