"""Change and describe the settings of a resource: the common part of DescribeConfigs and both AlterConfigs APIs.

A resource is a topic, a broker, or the loggers of a broker. The broker is the one that gets the request; an empty name
means the settings of all brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar

from broker.errors import RequestError, unexpected_code
from broker.log_levels import alter_levels, full_name, logger_levels
from broker.services import Services
from broker.settings.catalog import BROKER_SETTINGS
from broker.settings.described import DescribedConfig
from broker.settings.dynamic import AlterRequestError, Operation
from broker.topic_names import topic_name_problem
from protocol.error_codes import ErrorCode
from storage.log.config import TOPIC_SETTINGS
from storage.setting import ConfigError, Setting

Change = Callable[[Mapping[str, str], Mapping[str, Setting]], dict[str, str]]
"""A function from the stored settings and the table of all settings to the settings to store."""


class ConfigResource(IntEnum):
    """Kafka's config resource types that Ottla supports."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class NamedResource(Protocol):
    """A resource in a request."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=NamedResource)
Outcome = tuple[R, ErrorCode, str | None]
"""A resource, and the error code and message for it."""


class ConfigChanges:
    """Changes and describes settings for requests. All methods except `alter_each` raise RequestError."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def alter_each(
        self,
        resources: Sequence[R],
        change_of: Callable[[R], Change],
        levels_of: Callable[[R], list[Operation]] | None = None,
        *,
        validate_only: bool,
    ) -> list[Outcome[R]]:
        """Change each resource of a request; an error of one resource does not affect the others.

        levels_of: returns the operations on the levels of loggers; None if the API cannot change loggers.
        """
        times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
        outcomes: list[Outcome[R]] = []
        for resource in resources:
            resource_type, name = resource.resource_type, resource.resource_name
            if times[(resource_type, name)] > 1:
                outcomes.append((resource, ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
                continue
            try:
                if levels_of is not None and resource_type == ConfigResource.BROKER_LOGGER:
                    self._check_logger_broker("Node id", name)
                    alter_levels(levels_of(resource), validate_only=validate_only)
                else:
                    await self._alter(resource_type, name, change_of(resource), validate_only=validate_only)
            except Exception as error:
                outcomes.append((resource, unexpected_code(error, "a change of settings"), str(error)))
            else:
                outcomes.append((resource, ErrorCode.NONE, None))
        return outcomes

    async def _alter(self, resource_type: int, name: str, change: Change, *, validate_only: bool) -> None:
        """Apply a change to a resource's settings, or only check it."""
        try:
            if resource_type == ConfigResource.TOPIC:
                await self._alter_topic(name, change, validate_only=validate_only)
            elif resource_type == ConfigResource.BROKER:
                await self._alter_broker(name, change, validate_only=validate_only)
            elif resource_type == ConfigResource.BROKER_LOGGER:
                why = "AlterConfigs cannot change the levels of loggers: use IncrementalAlterConfigs"
                raise RequestError(ErrorCode.INVALID_REQUEST, why)
            else:
                raise _unexpected(resource_type)
        except AlterRequestError as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, str(error)) from None
        except ConfigError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None

    async def _alter_topic(self, name: str, change: Change, *, validate_only: bool) -> None:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        self._check_exists(name)
        configs = self._services.configs

        def changed(current: Mapping[str, str]) -> Mapping[str, str]:
            settings = change(current, TOPIC_SETTINGS)
            self._services.config.log_config(settings)
            return settings

        if validate_only:
            changed(await configs.read_topic(name))
        else:
            await configs.alter_topic(name, changed)

    async def _alter_broker(self, name: str, change: Change, *, validate_only: bool) -> None:
        broker_id = self._broker_id(name)
        configs = self._services.configs

        def changed(current: Mapping[str, str]) -> Mapping[str, str]:
            settings = change(current, BROKER_SETTINGS)
            try:
                configs.dynamic.check(settings, per_broker=broker_id is not None)
            except ConfigError as error:
                raise RequestError(ErrorCode.INVALID_REQUEST, str(error)) from None
            return settings

        if validate_only:
            changed(await configs.read_broker(broker_id))
        else:
            await configs.alter_broker(broker_id, changed)

    async def see_latest(self) -> None:
        """Let `describe` tell what was changed through other brokers, too."""
        await self._services.configs.see_latest()

    async def describe(self, resource_type: int, name: str, names: Collection[str] | None) -> list[DescribedConfig]:
        """Return a resource's settings, or only those in `names`.

        A topic's settings are read from the registry, because this broker may have no replica of the topic.
        """
        dynamic = self._services.configs.dynamic
        if resource_type == ConfigResource.TOPIC:
            self._check_topic(name)
            return dynamic.describe_topic(await self._services.configs.read_topic(name), names)
        if resource_type == ConfigResource.BROKER:
            if self._broker_id(name) is None:
                return dynamic.describe_cluster_wide(names)
            return dynamic.describe_broker(names)
        if resource_type == ConfigResource.BROKER_LOGGER:
            if not name:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            self._check_logger_broker("Broker id", name)
            levels = logger_levels()
            wanted = {full_name(one, levels) for one in names} if names else levels.keys()
            return [DescribedConfig.of_logger(one, level) for one, level in levels.items() if one in wanted]
        raise _unexpected(resource_type)

    def _check_topic(self, name: str) -> None:
        problem = topic_name_problem(name)
        if problem is not None:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
        self._check_exists(name)

    def _check_exists(self, name: str) -> None:
        if name not in self._services.metadata.snapshot.topics:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")

    def _broker_id(self, name: str) -> int | None:
        """Return this broker's id; None for the empty name, which means all brokers."""
        if not name:
            return None
        if name != str(self._services.broker_id):
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._services.broker_id} or empty string, but received {name}",
            )
        return self._services.broker_id

    def _check_logger_broker(self, what: str, name: str) -> None:
        """Raise RequestError unless the name is this broker's id: only the broker itself knows its loggers.

        what: what Kafka's error of this API calls the id.
        """
        if not name.removeprefix("-").isdecimal():
            raise RequestError(ErrorCode.INVALID_REQUEST, f"{what} must be an integer, but it is: {name}")
        if name != str(self._services.broker_id):
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._services.broker_id}, but received {name}",
            )


def _unexpected(resource_type: int) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, f"Unexpected config resource type {resource_type}")
