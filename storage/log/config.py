"""The settings of one topic: the table of Kafka's topic properties and `LogConfig`, the typed view of them.

A topic setting without an override has the value of the broker settings in its row (`server`, highest precedence
first), or Kafka's default. Times that brokers also accept in hours and minutes are in milliseconds here.
`TOPIC_SETTINGS` is sorted by name, like Kafka's own list.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from protocol.classic_names import Reader, advice
from storage.setting import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    ConfigError,
    OneOf,
    Range,
    RangeOr,
    ReplicaList,
    Setting,
    SettingType,
    SettingValue,
    Validator,
    table,
)

LONG_MAX = 9223372036854775807

MESSAGE_FORMAT_VERSIONS = (  # noqa: SIM905 - fifty-six short words
    "0.8.0 0.8.1 0.8.2 0.9.0 0.10.0-IV0 0.10.0-IV1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV0 "
    "0.11.0-IV1 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV0 2.0-IV1 2.1-IV0 2.1-IV1 2.1-IV2 2.2-IV0 2.2-IV1 2.3-IV0 "
    "2.3-IV1 2.4-IV0 2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV0 2.7-IV1 2.7-IV2 2.8-IV0 2.8-IV1 3.0-IV0 3.0-IV1 3.1-IV0 "
    "3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 "
    "3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1"
).split()


class VersionName(Validator):
    """A version of Kafka: one of the list, or a short form (`2.8`, `0.11.0`, `3.9.1`)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(f"[{', '.join(MESSAGE_FORMAT_VERSIONS)}]")

    def broken_rule(self, value: SettingValue) -> str | None:
        """Kafka reads the first two numbers (three below 1.0) and an optional -IVn."""
        if not isinstance(value, str):
            return "must be set"
        if value in MESSAGE_FORMAT_VERSIONS:
            return None
        parts = value.split(".")
        short = ".".join(parts[: 3 if parts[0] == "0" else 2])
        known = "-" not in value and any(name.split("-")[0] == short for name in MESSAGE_FORMAT_VERSIONS)
        return None if known else "must be a version of Kafka, such as 3.9 or 2.8-IV1"


VERSION_NAME = VersionName()
COMPRESSION_TYPES = OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
GZIP_LEVELS = RangeOr(1, 9, -1)
LZ4_LEVELS = Range(1, 17)
ZSTD_LEVELS = Range(-131072, 22)
CLEANUP_POLICIES = OneOf("compact", "delete")
TIMESTAMP_TYPES = OneOf("CreateTime", "LogAppendTime")


def _row(
    name: str,
    type: SettingType,  # noqa: A002 - as in Setting
    default: str,
    validator: Validator | None,
    server: tuple[str, ...],
    doc: str,
    *,
    acts: bool = True,
    importance: str = MEDIUM,
) -> Setting:
    return Setting(name, type, default, validator, importance, CLUSTER_WIDE, doc, acts, False, server)


# fmt: off
TOPIC_SETTINGS: dict[str, Setting] = table((
    _row("cleanup.policy", LIST, "delete", CLEANUP_POLICIES,
         ("log.cleanup.policy",),
         "What happens to old segments: delete them, compact them by key, or both."),
    _row("compression.gzip.level", INT, "-1", GZIP_LEVELS,
         ("compression.gzip.level",),
         "Level used where the broker compresses with gzip; -1 is the library's own default."),
    _row("compression.lz4.level", INT, "9", LZ4_LEVELS,
         ("compression.lz4.level",),
         "Level used where the broker compresses with lz4."),
    _row("compression.type", STRING, "producer", COMPRESSION_TYPES,
         ("compression.type",),
         "Codec that batches are stored with; producer keeps what the producer chose."),
    _row("compression.zstd.level", INT, "3", ZSTD_LEVELS,
         ("compression.zstd.level",),
         "Level used where the broker compresses with zstd."),
    _row("delete.retention.ms", LONG, "86400000", AT_LEAST_0,
         ("log.cleaner.delete.retention.ms",),
         "How long compaction keeps tombstones and transaction markers."),
    _row("file.delete.delay.ms", LONG, "60000", AT_LEAST_0,
         ("log.segment.delete.delay.ms",),
         "How long the files of a deleted segment stay on disk."),
    _row("flush.messages", LONG, str(LONG_MAX), AT_LEAST_1,
         ("log.flush.interval.messages",),
         "Number of records after which the log is forced to disk."),
    _row("flush.ms", LONG, str(LONG_MAX), AT_LEAST_0,
         ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
         "Time after which records are forced to disk."),
    _row("follower.replication.throttled.replicas", LIST, "", ReplicaList(),
         (),
         "Replicas whose replication traffic is throttled on the follower's side."),
    _row("index.interval.bytes", INT, "4096", AT_LEAST_0,
         ("log.index.interval.bytes",),
         "Bytes of log between two entries of the offset index."),
    _row("leader.replication.throttled.replicas", LIST, "", ReplicaList(),
         (),
         "Replicas whose replication traffic is throttled on the leader's side."),
    _row("local.retention.bytes", LONG, "-2", Range(-2),
         ("log.local.retention.bytes",),
         "Size kept on local disk under tiered storage; -2 takes retention.bytes.", acts=False),
    _row("local.retention.ms", LONG, "-2", Range(-2),
         ("log.local.retention.ms",),
         "Time kept on local disk under tiered storage; -2 takes retention.ms.", acts=False),
    _row("max.compaction.lag.ms", LONG, str(LONG_MAX), AT_LEAST_1,
         ("log.cleaner.max.compaction.lag.ms",),
         "Age at which a record must have become eligible for compaction."),
    _row("max.message.bytes", INT, "1048588", AT_LEAST_0,
         ("message.max.bytes",),
         "Largest record batch that is accepted, as it is stored."),
    _row("message.downconversion.enable", BOOLEAN, "true", None,
         ("log.message.downconversion.enable",),
         "Whether old consumers get records converted to the format that they know.", importance=LOW),
    _row("message.format.version", STRING, "3.0-IV1", VERSION_NAME,
         ("log.message.format.version",),
         "Ignored, as Kafka 3 does: records are always stored in format 2.", acts=False),
    _row("message.timestamp.after.max.ms", LONG, str(LONG_MAX), AT_LEAST_0,
         ("log.message.timestamp.after.max.ms",),
         "How far a record's timestamp may lie after the broker's clock."),
    _row("message.timestamp.before.max.ms", LONG, str(LONG_MAX), AT_LEAST_0,
         ("log.message.timestamp.before.max.ms",),
         "How far a record's timestamp may lie before the broker's clock."),
    _row("message.timestamp.difference.max.ms", LONG, str(LONG_MAX), AT_LEAST_0,
         ("log.message.timestamp.difference.max.ms",),
         "Old name that stands in for the before and after limits where these are not set."),
    _row("message.timestamp.type", STRING, "CreateTime", TIMESTAMP_TYPES,
         ("log.message.timestamp.type",),
         "Whose clock stamps the records: the producer's (CreateTime) or the broker's (LogAppendTime)."),
    _row("min.cleanable.dirty.ratio", DOUBLE, "0.5", Range(0, 1),
         ("log.cleaner.min.cleanable.ratio",),
         "Share of a log that must not yet be compacted before compaction looks at it."),
    _row("min.compaction.lag.ms", LONG, "0", AT_LEAST_0,
         ("log.cleaner.min.compaction.lag.ms",),
         "Age below which a record is never compacted."),
    _row("min.insync.replicas", INT, "1", AT_LEAST_1,
         ("min.insync.replicas",),
         "In-sync replicas that acks=all needs."),
    _row("preallocate", BOOLEAN, "false", None,
         ("log.preallocate",),
         "Whether a new segment's file gets its full size at once."),
    _row("remote.log.copy.disable", BOOLEAN, "false", None,
         (),
         "Tiered storage is not there: must stay false.", acts=False),
    _row("remote.log.delete.on.disable", BOOLEAN, "false", None,
         (),
         "Tiered storage is not there: must stay false.", acts=False),
    _row("remote.storage.enable", BOOLEAN, "false", None,
         (),
         "Tiered storage is not there: must stay false.", acts=False),
    _row("retention.bytes", LONG, "-1", None,
         ("log.retention.bytes",),
         "Size of a partition above which old segments are deleted; -1 sets no limit."),
    _row("retention.ms", LONG, "604800000", Range(-1),
         ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
         "Age above which segments are deleted; -1 sets no limit."),
    _row("segment.bytes", INT, "1073741824", Range(14),
         ("log.segment.bytes",),
         "Size at which a new segment begins."),
    _row("segment.index.bytes", INT, "10485760", Range(4),
         ("log.index.size.max.bytes",),
         "Size of an index at which a new segment begins."),
    _row("segment.jitter.ms", LONG, "0", AT_LEAST_0,
         ("log.roll.jitter.ms", "log.roll.jitter.hours"),
         "Random time taken off segment.ms, so that segments do not all roll at once."),
    _row("segment.ms", LONG, "604800000", AT_LEAST_1,
         ("log.roll.ms", "log.roll.hours"),
         "Age at which a new segment begins."),
    _row("unclean.leader.election.enable", BOOLEAN, "false", None,
         ("unclean.leader.election.enable",),
         "Whether a replica out of sync may become leader, at the price of lost records."),
))
# fmt: on

UNSUPPORTED = ("remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable")
"""Topic settings of tiered storage, which is not supported. They must stay false."""


class LogConfig:
    """The settings of one topic as values. Each setting is an attribute with its name in snake case.

    `values` has the parsed values of the broker's and the topic's settings, `overrides` the topic's own settings as
    text. Nobody changes a LogConfig: `with_overrides` returns a new one.
    """

    __slots__ = ("overrides", "values", *sorted(setting.attribute for setting in TOPIC_SETTINGS.values()))

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_downconversion_enable: bool
    message_format_version: str
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_difference_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    values: dict[str, SettingValue]
    overrides: dict[str, str]

    def __init__(
        self,
        overrides: Mapping[str, str] | None = None,
        defaults: Mapping[str, SettingValue] | None = None,
    ) -> None:
        """overrides: topic setting to text. defaults: topic setting to value, from the broker's settings.

        Raises ConfigError if an override is unknown, invalid or contradicts another one.
        """
        self.overrides = dict(overrides or {})
        self.values = dict(defaults or {})
        for name, text in self.overrides.items():
            self.values[name] = topic_setting(name).parse(text)
        for name, setting in TOPIC_SETTINGS.items():
            self._set(setting, self.values.get(name, setting.default))
        self._check_together()
        if self.message_timestamp_before_max_ms == LONG_MAX:
            self.message_timestamp_before_max_ms = self.message_timestamp_difference_max_ms
        if self.message_timestamp_after_max_ms == LONG_MAX:
            self.message_timestamp_after_max_ms = self.message_timestamp_difference_max_ms

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogConfig) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return f"LogConfig({self.overrides})"

    def with_overrides(self, **values: Any) -> LogConfig:
        """A copy with some attributes replaced by name: `config.with_overrides(segment_bytes=1024)`."""
        by_attribute = {setting.attribute: setting for setting in TOPIC_SETTINGS.values()}
        overrides = dict(self.overrides)
        for attribute, value in values.items():
            setting = by_attribute[attribute]
            if isinstance(value, set | frozenset | list):
                value = tuple(sorted(value))
            overrides[setting.name] = setting.text(value) or ""
        return LogConfig(overrides, self.values)

    def value(self, name: str) -> SettingValue:
        """The configured value of a topic setting, by Kafka's name."""
        return self.values.get(name, TOPIC_SETTINGS[name].default)

    @property
    def compacts(self) -> bool:
        """Whether compaction removes records that have a newer one with the same key. Then every record needs a key."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """Age at which a segment rolls: segment.ms, and in compacted topics at most max.compaction.lag.ms."""
        return min(self.max_compaction_lag_ms, self.segment_ms) if self.compacts else self.segment_ms

    def roll_jitter_ms(self, rng: random.Random) -> int:
        """A random time to subtract from the age at which one segment rolls: at most that age, as in Kafka."""
        return rng.randint(0, min(self.segment_jitter_ms, self.segment_ms)) if self.segment_jitter_ms else 0

    def _set(self, setting: Setting, value: SettingValue) -> None:
        if setting.name == "cleanup.policy" and isinstance(value, tuple):
            self.cleanup_policy = frozenset(value)
        else:
            setattr(self, setting.attribute, value)

    def _all(self) -> tuple[Any, ...]:
        return tuple(getattr(self, setting.attribute) for setting in TOPIC_SETTINGS.values())

    def _check_together(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            rule = f"must not exceed max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            raise ConfigError("min.compaction.lag.ms", self.min_compaction_lag_ms, rule)
        for name in UNSUPPORTED:
            if self.value(name):
                raise ConfigError(name, "true", "tiered storage is not supported")


def _instead(name: str) -> str:
    """The end of an error message about an unknown name: what to use instead, if anything."""
    for setting in TOPIC_SETTINGS.values():
        if name in setting.server:
            return f": brokers have it, topics have {setting.name}"
    instead = advice(name, Reader.TOPIC)
    return "" if instead is None else f": {instead}"


def topic_setting(name: str) -> Setting:
    """The row of a topic setting. Raises ConfigError if no topic setting has this name."""
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        raise ConfigError(name, None, f"no topic setting has this name{_instead(name)}")
    return setting
