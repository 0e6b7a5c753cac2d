"""The part of the admin client for settings of topics and brokers.

Requests about a topic's settings go to any broker. Requests about one broker's settings go to that broker, because only
it knows its static settings. The name "" means the dynamic default of all brokers, which any broker knows.
"""

from collections.abc import Iterable, Mapping, Sequence

from client.admin.base import AdminBase
from client.admin.types import ConfigChange, ConfigEntry, ConfigSource, ConfigType, ResourceType
from client.errors import KafkaError, error_for
from client.options import refuse
from client.wire.connection import Connection
from protocol.error_codes import ErrorCode
from protocol.messages import incremental_alter_configs as incremental
from protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


class ConfigAdmin(AdminBase):
    """DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

    async def describe_configs(
        self,
        resource: ResourceType,
        name: str,
        keys: Iterable[str] | None = None,
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[str, ConfigEntry]:
        """The settings of a topic or broker, sorted by name. Raises UnknownTopicOrPartitionError, …"""
        found = await self._describe_configs(
            resource, [name], keys, include_synonyms=include_synonyms, include_documentation=include_documentation
        )
        if isinstance(entries := found[name], KafkaError):
            raise entries
        return entries

    async def describe_topic_configs(
        self, topics: Iterable[str], keys: Iterable[str] | None = None, *, include_synonyms: bool = False
    ) -> dict[str, dict[str, ConfigEntry] | KafkaError]:
        """The settings of several topics, in one request. Return the settings or the error of each topic."""
        names = list(topics)
        if not names:
            return {}
        return await self._describe_configs(ResourceType.TOPIC, names, keys, include_synonyms=include_synonyms)

    async def _describe_configs(
        self,
        resource: ResourceType,
        names: Sequence[str],
        keys: Iterable[str] | None,
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[str, dict[str, ConfigEntry] | KafkaError]:
        """The settings of resources, as the broker of the first one describes them, or the error of each.

        Errors that may pass are retried. "Unknown topic" is not one of them here: the topic may have been deleted.
        """
        wanted = None if keys is None else list(keys)
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=int(resource), resource_name=name, configuration_keys=wanted)
                for name in names
            ]
        )

        async def ask() -> dict[str, dict[str, ConfigEntry] | KafkaError]:
            connection = await self._connection_for(resource, names[0])
            version = connection.common_version(DescribeConfigsRequest)
            request.include_synonyms = include_synonyms and version >= 1
            request.include_documentation = include_documentation and version >= 3
            response = await connection.call(request, DescribeConfigsResponse, version)
            found: dict[str, dict[str, ConfigEntry] | KafkaError] = {}
            for result in response.results:
                name = result.resource_name
                if not result.error_code:
                    found[name] = _entries(result)
                    continue
                error = error_for(result.error_code, result.error_message, context=_label(resource, name))
                if error.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise error
                found[name] = error
            return found

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def incremental_alter_configs(
        self,
        resource: ResourceType,
        name: str,
        changes: Iterable[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single settings and keep all others. Raises InvalidConfigurationError, …"""
        configs = [
            incremental.AlterableConfig(name=change.name, config_operation=int(change.operation), value=change.value)
            for change in changes
        ]
        target = incremental.AlterConfigsResource(resource_type=int(resource), resource_name=name, configs=configs)
        request = incremental.IncrementalAlterConfigsRequest(resources=[target], validate_only=validate_only)

        async def ask() -> None:
            connection = await self._connection_for(resource, name)
            response = await connection.call(request, incremental.IncrementalAlterConfigsResponse)
            for result in response.responses:
                if result.error_code:
                    raise error_for(result.error_code, result.error_message, context=_label(resource, name))

        await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def alter_configs(
        self,
        resource: ResourceType,
        name: str,
        configs: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace all dynamic settings; others return to their defaults. Raises InvalidConfigurationError, …"""
        entries = [AlterableConfig(name=key, value=value) for key, value in configs.items()]
        target = AlterConfigsResource(resource_type=int(resource), resource_name=name, configs=entries)
        request = AlterConfigsRequest(resources=[target], validate_only=validate_only)

        async def ask() -> None:
            connection = await self._connection_for(resource, name)
            response = await connection.call(request, AlterConfigsResponse)
            for result in response.responses:
                if result.error_code:
                    raise error_for(result.error_code, result.error_message, context=_label(resource, name))

        await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def _connection_for(self, resource: ResourceType, name: str) -> Connection:
        if resource == ResourceType.TOPIC or not name:
            return await self._cluster.any_connection()
        if not name.isascii() or not name.isdigit():
            raise refuse("broker", name, "must be a broker id, or empty for the default of all brokers")
        if int(name) not in self._cluster.metadata.brokers:
            await self._cluster.refresh([])
        if int(name) not in self._cluster.metadata.brokers:
            raise refuse("broker", name, "the cluster has no such broker now")
        return await self._cluster.connection(int(name))


def _entries(result: DescribeConfigsResult) -> dict[str, ConfigEntry]:
    """The settings of one resource, sorted by name."""
    found = {}
    for entry in result.configs:
        source = _source(entry.config_source, entry.is_default)
        synonyms = tuple((one.name, one.value, _source(one.source)) for one in entry.synonyms)
        found[entry.name] = ConfigEntry(
            entry.name,
            entry.value,
            source,
            entry.read_only,
            entry.is_sensitive,
            entry.documentation,
            synonyms,
            _type(entry.config_type),
        )
    return dict(sorted(found.items()))


def _label(resource: ResourceType, name: str) -> str:
    return f"{resource.name.lower().replace('_', ' ')} {name or '(default)'}"


def _source(number: int, is_default: bool = False) -> ConfigSource:
    """The source of a value; version 0 of the answer only says whether the value is the default."""
    if is_default:
        return ConfigSource.DEFAULT_CONFIG
    return ConfigSource(number) if number in ConfigSource._value2member_map_ else ConfigSource.UNKNOWN


def _type(number: int) -> ConfigType:
    return ConfigType(number) if number in ConfigType._value2member_map_ else ConfigType.UNKNOWN
