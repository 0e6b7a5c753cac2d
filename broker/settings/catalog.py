"""Every broker setting by name: the tables of storage, replication and broker combined."""

from __future__ import annotations

from broker.settings.tables.cluster import CLUSTER_SETTINGS
from broker.settings.tables.groups import GROUP_SETTINGS
from broker.settings.tables.kraft import KRAFT_SETTINGS
from broker.settings.tables.metrics import METRICS_SETTINGS
from broker.settings.tables.network import NETWORK_SETTINGS
from broker.settings.tables.ottla import OTTLA_SETTINGS
from broker.settings.tables.remote import REMOTE_SETTINGS
from broker.settings.tables.security import SECURITY_SETTINGS
from broker.settings.tables.topics import TOPIC_ADMIN_SETTINGS
from broker.settings.tables.transactions import TRANSACTION_SETTINGS
from replication.settings import REPLICATION_SETTINGS
from storage.log.config import LONG_MAX, TOPIC_SETTINGS
from storage.setting import AT_LEAST_0, CLUSTER_WIDE, LONG, MEDIUM, Setting, table
from storage.settings import STORAGE_SETTINGS

KAFKA_SETTINGS: dict[str, Setting] = dict(
    sorted(
        {
            **STORAGE_SETTINGS,
            **REPLICATION_SETTINGS,
            **NETWORK_SETTINGS,
            **TOPIC_ADMIN_SETTINGS,
            **CLUSTER_SETTINGS,
            **GROUP_SETTINGS,
            **TRANSACTION_SETTINGS,
            **SECURITY_SETTINGS,
            **KRAFT_SETTINGS,
            **METRICS_SETTINGS,
            **REMOTE_SETTINGS,
        }.items()
    )
)
"""Kafka's settings, by name."""

BROKER_SETTINGS: dict[str, Setting] = {**KAFKA_SETTINGS, **OTTLA_SETTINGS}
"""All settings that a properties file may contain: Kafka's, then Ottla's own."""

ACTED_ON: frozenset[str] = frozenset(name for name, setting in BROKER_SETTINGS.items() if setting.acts)
"""Broker settings that have an effect in Ottla: each has a test that shows its effect."""

TOPIC_ACTED_ON: frozenset[str] = frozenset(name for name, setting in TOPIC_SETTINGS.items() if setting.acts)
"""Topic settings that have an effect in Ottla."""

DYNAMIC_QUOTAS: dict[str, Setting] = table(
    Setting(name, LONG, str(LONG_MAX), AT_LEAST_0, MEDIUM, CLUSTER_WIDE, "Throttle in bytes a second.")
    for name in (
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
)
"""Settings that exist only as dynamic settings."""
