"""Settings of topics with their documentation.

Brokers document their own settings since Kafka 2.6 (KIP-569). What they do not say comes from `topic_settings.json`,
which is generated from the settings of our broker: rules, and defaults for the form that creates a topic.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from pydantic import BaseModel, TypeAdapter

from client.admin.types import ConfigEntry, ResourceType
from console.rest.call import Call
from console.rest.models import Answer
from console.rest.operation import ApiOperation, Right
from security.acls.types import Operation
from security.acls.types import ResourceType as AclResourceType

_FILE: Final = Path(__file__).with_suffix(".json")


class SettingRule(BaseModel):
    """A setting that topics may have. A number is from `low` to `high` (null: no bound), or `other`."""

    name: str
    type: str
    default: str | None
    """Kafka's default. A broker may have another one."""
    documentation: str
    low: float | None
    high: float | None
    other: int | None
    choices: list[str] | None
    """The values, or the elements of a list."""


class SettingRules(Answer):
    """The settings that topics may have in Kafka 3.9, by name."""

    settings: list[SettingRule]


class TopicSetting(Answer):
    """A setting of a topic. `value` is null if it is sensitive."""

    name: str
    value: str | None
    source: str
    """As in DescribeConfigs: DYNAMIC_TOPIC_CONFIG for a value that was set for this topic."""
    inherited: str | None
    """The value after a reset; null if the brokers do not tell."""
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None
    rule: SettingRule | None
    """null for a setting that Kafka 3.9 does not have."""


class TopicSettings(Answer):
    """The settings of a topic, by name."""

    settings: list[TopicSetting]


@functools.cache
def rules() -> dict[str, SettingRule]:
    """Return the rules by the name of their setting."""
    found = TypeAdapter(list[SettingRule]).validate_json(_FILE.read_bytes())
    return {one.name: one for one in found}


async def list_rules(call: Call) -> SettingRules:
    """List the settings that topics may have, with their defaults, rules and documentation."""
    return SettingRules(settings=list(rules().values()))


async def list_settings(call: Call) -> TopicSettings:
    """List the settings of a topic with their sources, rules and documentation."""
    entries = await call.admin.describe_configs(
        ResourceType.TOPIC, call.topic_name, include_synonyms=True, include_documentation=True
    )
    return TopicSettings(settings=[_setting(one) for one in entries.values()])


def _setting(entry: ConfigEntry) -> TopicSetting:
    rule = rules().get(entry.name)
    return TopicSetting(
        name=entry.name,
        value=entry.value,
        source=entry.source.name,
        inherited=_inherited(entry),
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        documentation=entry.documentation or (None if rule is None else rule.documentation),
        rule=rule,
    )


def _inherited(entry: ConfigEntry) -> str | None:
    """Return the value without the topic's own: the first synonym of another source."""
    if not entry.is_topics_own:
        return entry.value
    own = entry.source
    return next((value for _, value, source in entry.synonyms if source != own), None)


OPERATIONS: Final = (
    ApiOperation("GET", "/topic-settings", list_rules, Right(Operation.DESCRIBE), SettingRules),
    ApiOperation(
        "GET",
        "/topics/{topic_name}/settings",
        list_settings,
        Right(Operation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, "topic_name"),
        TopicSettings,
    ),
)
