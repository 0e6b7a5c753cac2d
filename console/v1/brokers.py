"""Brokers: all at a glance; of one broker its settings, log directories, APIs, statistics and log levels.

A broker that does not answer in time is named, and what is known about it without its answer is shown.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Final, Literal

from pydantic import Field

from client.admin.types import ConfigChange, ConfigEntry, ConfigOperation, LogDirDescription, ResourceType
from client.errors import KafkaError, UnsupportedApiError
from console.rest.call import Call
from console.rest.errors import rest_error
from console.rest.models import Answer, Asked, Name
from console.rest.operation import ApiOperation, Right
from console.v3.brokers import live_broker
from console.watching.patience import Problems
from console.watching.snapshot import log_dirs
from protocol.error_codes import ErrorCode
from security.acls.types import Operation

_PROTOCOL_VERSION: Final = "inter.broker.protocol.version"
_NO_LOGGERS: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_CONFIG})


class BrokerSummary(Answer):
    """A broker. null: unknown, because the broker is not alive or did not answer."""

    broker_id: int
    is_alive: bool
    is_controller: bool
    host: str | None
    port: int | None
    rack: str | None
    leaders: int
    """Partitions that it leads."""
    preferred_leaders: int
    """Partitions whose preferred leader it is."""
    leads_preferred: int
    """Of these, those that it leads."""
    replicas: int
    out_of_sync: int
    """Of these replicas, those that are not in sync."""
    size_bytes: int | None
    log_dirs: int | None
    failed_log_dirs: int | None
    version: str | None
    """inter.broker.protocol.version."""


class BrokersOverview(Answer):
    """The answer of `/brokers`."""

    brokers: list[BrokerSummary]
    problems: list[str]


class SettingSynonym(Answer):
    """Where a value may come from, in order of precedence."""

    name: str
    value: str | None
    source: str


class Setting(Answer):
    """A setting with its documentation. `value` is null if the broker hides it."""

    name: str
    value: str | None
    type: str
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None
    synonyms: list[SettingSynonym]


class BrokerSettings(Answer):
    """The settings of a broker, by name."""

    broker_id: int
    settings: list[Setting]


class LogDirReplica(Answer):
    """A replica in a log directory; a future replica is being moved there."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int | None
    is_future: bool


class LogDir(Answer):
    """A log directory. Bytes are null if the broker is too old to report them."""

    path: str
    error: str | None
    size_bytes: int
    total_bytes: int | None
    usable_bytes: int | None
    replicas: list[LogDirReplica]


class BrokerLogDirs(Answer):
    """The log directories of a broker."""

    broker_id: int
    log_dirs: list[LogDir]


class ApiRange(Answer):
    """An API of a broker, with the versions that it serves."""

    api_key: int
    name: str
    lowest: int
    highest: int


class BrokerApis(Answer):
    """The APIs of a broker, by key."""

    broker_id: int
    apis: list[ApiRange]


class ApiCounts(Answer):
    """The requests of one API since the start of the broker. `p99_seconds` is null if it is beyond 10 s."""

    api: str
    requests: int
    errors: int
    request_bytes: int
    response_bytes: int
    mean_seconds: float
    p99_seconds: float | None


class BrokerCounts(Answer):
    """What an Ottla broker counts."""

    connections: dict[str, int]
    rejected_frames: int
    delayed_fetches: int
    delayed_produces: int
    apis: list[ApiCounts]


class BrokerStatisticsAnswer(Answer):
    """The statistics of a broker; null with the reason if it does not tell them here."""

    broker_id: int
    statistics: BrokerCounts | None
    reason: str | None


class LogLevels(Answer):
    """The loggers of a broker with their levels; null with the reason if it has none that can be changed."""

    broker_id: int
    levels: dict[str, str] | None
    reason: str | None


class NewLevel(Asked):
    """The level of a logger. null: that of the logger above it."""

    logger: Name
    level: Literal["FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"] | None


class NewLevels(Asked):
    """Levels to set: all or none."""

    data: Annotated[list[NewLevel], Field(min_length=1, max_length=100)]


async def list_brokers_with_load(call: Call) -> BrokersOverview:
    """List all brokers with what they hold, also those that are not alive but have replicas."""
    described = await call.admin.describe_cluster()
    topics = await call.topics()
    alive = {broker.node_id: broker for broker in described.brokers}
    problems = Problems()
    logs, versions = await asyncio.gather(
        log_dirs(call.admin, alive, problems),
        problems.of_brokers({one: one for one in alive}, lambda one: _version(call, one)),
    )
    partitions = [one for topic in topics.values() for one in topic.partitions.values()]
    leaders = Counter(one.leader for one in partitions)
    preferred = Counter(one.replicas[0] for one in partitions if one.replicas)
    at_home = Counter(one.leader for one in partitions if one.replicas and one.leader == one.replicas[0])
    replicas = Counter(replica for one in partitions for replica in one.replicas)
    behind = Counter(replica for one in partitions for replica in one.replicas if replica not in one.isr)

    def summary(broker_id: int) -> BrokerSummary:
        broker, dirs = alive.get(broker_id), logs.get(broker_id)
        return BrokerSummary(
            broker_id=broker_id,
            is_alive=broker is not None,
            is_controller=broker_id == described.controller_id,
            host=None if broker is None else broker.host,
            port=None if broker is None else broker.port,
            rack=None if broker is None else broker.rack,
            leaders=leaders[broker_id],
            preferred_leaders=preferred[broker_id],
            leads_preferred=at_home[broker_id],
            replicas=replicas[broker_id],
            out_of_sync=behind[broker_id],
            size_bytes=None if dirs is None else sum(one.size_bytes for log in dirs for one in log.replicas),
            log_dirs=None if dirs is None else len(dirs),
            failed_log_dirs=None if dirs is None else sum(bool(log.error_code) for log in dirs),
            version=versions.get(broker_id),
        )

    return BrokersOverview(
        brokers=[summary(one) for one in sorted(alive.keys() | replicas)], problems=problems.sentences
    )


async def _version(call: Call, broker_id: int) -> str | None:
    found = await call.admin.describe_configs(ResourceType.BROKER, str(broker_id), [_PROTOCOL_VERSION])
    entry = found.get(_PROTOCOL_VERSION)
    return None if entry is None else entry.value


async def list_broker_settings(call: Call) -> BrokerSettings:
    """List the settings of a broker with their sources, types and documentation."""
    broker_id = (await live_broker(call)).node_id
    found = await call.admin.describe_configs(
        ResourceType.BROKER, str(broker_id), include_synonyms=True, include_documentation=True
    )
    return BrokerSettings(broker_id=broker_id, settings=[_setting(one) for one in found.values()])


def _setting(entry: ConfigEntry) -> Setting:
    return Setting(
        name=entry.name,
        value=entry.value,
        type=entry.type.name,
        source=entry.source.name,
        is_default=entry.is_default,
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        documentation=entry.documentation,
        synonyms=[SettingSynonym(name=name, value=value, source=source.name) for name, value, source in entry.synonyms],
    )


async def list_log_dirs(call: Call) -> BrokerLogDirs:
    """List the log directories of a broker with their replicas."""
    broker_id = (await live_broker(call)).node_id
    problems = Problems()
    found = await log_dirs(call.admin, [broker_id], problems)
    if broker_id not in found:
        raise rest_error(KafkaError(" ".join(problems.sentences)))
    return BrokerLogDirs(broker_id=broker_id, log_dirs=[_log_dir(call, one) for one in found[broker_id]])


def _log_dir(call: Call, found: LogDirDescription) -> LogDir:
    return LogDir(
        path=found.path,
        error=ErrorCode(found.error_code).name if found.error_code else None,
        size_bytes=sum(one.size_bytes for one in found.replicas),
        total_bytes=found.total_bytes if found.total_bytes >= 0 else None,
        usable_bytes=found.usable_bytes if found.usable_bytes >= 0 else None,
        replicas=[
            LogDirReplica(
                topic=one.topic,
                partition=one.partition,
                size_bytes=one.size_bytes,
                offset_lag=one.offset_lag if one.offset_lag >= 0 else None,
                is_future=one.is_future,
            )
            for one in found.replicas
            if call.sees_topic(one.topic)
        ],
    )


async def list_apis(call: Call) -> BrokerApis:
    """List the APIs of a broker with the versions that it serves."""
    broker_id = (await live_broker(call)).node_id
    found = (await call.admin.describe_api_versions([broker_id]))[broker_id]
    return BrokerApis(
        broker_id=broker_id,
        apis=[ApiRange(api_key=one.api_key, name=one.name, lowest=one.lowest, highest=one.highest) for one in found],
    )


async def get_statistics(call: Call) -> BrokerStatisticsAnswer:
    """Return the network and request statistics of the Ottla broker that serves this console."""
    broker_id, inside = (await live_broker(call)).node_id, call.services.inside
    if inside is None:
        reason = "Requests and connections are only counted here for an Ottla broker, in the console that it serves."
        return BrokerStatisticsAnswer(broker_id=broker_id, statistics=None, reason=reason)
    if inside.broker_id != broker_id:
        reason = (
            f"This is the console of broker {inside.broker_id}. Broker {broker_id} shows its statistics in its own."
        )
        return BrokerStatisticsAnswer(broker_id=broker_id, statistics=None, reason=reason)
    found = inside.statistics()
    statistics = BrokerCounts(**found._asdict() | {"apis": [ApiCounts(**one._asdict()) for one in found.apis]})
    return BrokerStatisticsAnswer(broker_id=broker_id, statistics=statistics, reason=None)


async def list_log_levels(call: Call) -> LogLevels:
    """List the loggers of a broker with their levels (KIP-412)."""
    broker_id = (await live_broker(call)).node_id
    try:
        found = await call.admin.describe_configs(ResourceType.BROKER_LOGGER, str(broker_id))
    except KafkaError as error:
        if error.code not in _NO_LOGGERS and not isinstance(error, UnsupportedApiError):
            raise
        return LogLevels(broker_id=broker_id, levels=None, reason="This broker has no loggers that clients can change.")
    return LogLevels(broker_id=broker_id, levels={name: one.value or "" for name, one in found.items()}, reason=None)


async def set_log_levels(call: Call) -> None:
    """Set or reset levels of loggers of a broker, until it stops."""
    broker_id = (await live_broker(call)).node_id
    asked: NewLevels = call.asked
    changes = [
        ConfigChange(one.logger, one.level, ConfigOperation.DELETE if one.level is None else ConfigOperation.SET)
        for one in asked.data
    ]
    await call.admin.incremental_alter_configs(ResourceType.BROKER_LOGGER, str(broker_id), changes)


_DESCRIBE: Final = Right(Operation.DESCRIBE)
_DESCRIBE_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS)
_BROKER: Final = "/brokers/{broker_id}"
OPERATIONS: Final = (
    ApiOperation("GET", "/brokers", list_brokers_with_load, _DESCRIBE, BrokersOverview),
    ApiOperation("GET", f"{_BROKER}/settings", list_broker_settings, _DESCRIBE_CONFIGS, BrokerSettings),
    ApiOperation("GET", f"{_BROKER}/log-dirs", list_log_dirs, _DESCRIBE, BrokerLogDirs),
    ApiOperation("GET", f"{_BROKER}/apis", list_apis, _DESCRIBE, BrokerApis),
    ApiOperation("GET", f"{_BROKER}/statistics", get_statistics, _DESCRIBE, BrokerStatisticsAnswer),
    ApiOperation("GET", f"{_BROKER}/log-levels", list_log_levels, _DESCRIBE_CONFIGS, LogLevels),
    ApiOperation(
        "POST",
        f"{_BROKER}/log-levels",
        set_log_levels,
        Right(Operation.ALTER_CONFIGS),
        status=204,
        takes=NewLevels,
    ),
)
