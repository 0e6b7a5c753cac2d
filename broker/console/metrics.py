"""Every metric of `/metrics`: name, kind, labels, meaning, and the function that reads it.

The exposition and its description use these literal rows, and a test compares docs/console.md with them. Reading is
plain integer work on the event loop; `exposition` generates the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from broker.console import coordinator_metrics, quota_metrics, replication_metrics
from broker.console.readings import Readings
from broker.coordinator.consumer.group import AnyGroup
from broker.metrics import ApiMetrics
from broker.network.acceptor import Acceptor
from broker.quotas.client_quotas import AnyShare
from broker.services import Services
from replication.isr_changes import IsrChanges
from replication.partition import Partition
from storage.compaction.log_cleaner import LogCleaner
from storage.directories.log_directory import LogDirectory
from storage.log.log import Log

COUNTER = "counter"
GAUGE = "gauge"


class Source(NamedTuple):
    """The objects that metrics are read from."""

    services: Services
    acceptors: Mapping[str, Acceptor]
    version: str


class Metric(NamedTuple):
    """One row. The names of counters have no `_total`, which the exposition adds."""

    name: str
    kind: str
    labels: tuple[str, ...]
    documentation: str
    read: Callable[[Source], Readings]


def _single(read: Callable[[Source], float]) -> Callable[[Source], Readings]:
    return lambda source: [((), read(source))]


def _by_api(read: Callable[[ApiMetrics], float]) -> Callable[[Source], Readings]:
    """Read only APIs with at least one request: most APIs get none."""
    return lambda source: [((api.api,), read(api)) for api in used_apis(source)]


def _such(holds: Callable[[Partition], bool]) -> Callable[[Source], Readings]:
    return _single(lambda source: replication_metrics.count_partitions(source.services, holds))


def _of_isr(read: Callable[[IsrChanges], int]) -> Callable[[Source], Readings]:
    return _single(lambda source: replication_metrics.isr_changes(source.services, read))


def _by_topic(count: Callable[[Partition], int]) -> Callable[[Source], Readings]:
    return lambda source: [((topic,), value) for topic, value in source.services.replicas.count_by_topic(count).items()]


def _by_log(read: Callable[[Log], int]) -> Callable[[Source], Readings]:
    return lambda source: [((log.topic, str(log.partition)), read(log)) for log in _logs(source.services)]


def _by_entity(read: Callable[[AnyShare], float]) -> Callable[[Source], Readings]:
    return lambda source: quota_metrics.by_entity(source.services, read)


def _by_group(read: Callable[[AnyGroup], float]) -> Callable[[Source], Readings]:
    return lambda source: coordinator_metrics.by_group(source.services, read)


def _by_cleaner(read: Callable[[LogCleaner], float]) -> Callable[[Source], Readings]:
    return lambda source: [((), read(source.services.cleaner))]


def _uncleanable(read: Callable[[LogCleaner, Path], int]) -> Callable[[Source], Readings]:
    def readings(source: Source) -> Readings:
        services = source.services
        return [((str(one.path),), read(services.cleaner, one.path)) for one in services.logs.dirs.online]

    return readings


def used_apis(source: Source) -> Iterator[ApiMetrics]:
    """Return the counters of APIs with at least one request."""
    return (api for api in source.services.metrics.apis.values() if api.request_bytes)


def _logs(services: Services) -> Iterator[Log]:
    return (partition.log for partition in services.replicas.partitions.values() if partition.log is not None)


def _count(these: Iterable[bool]) -> int:
    return sum(1 for one in these if one)


def _offline(source: Source) -> int:
    """Count offline partitions on the controller only, as in Kafka, so that the sum over all brokers is right."""
    if not source.services.is_controller():
        return 0
    snapshot = source.services.metadata.snapshot
    return _count(
        state.leader not in snapshot.brokers
        for topic in snapshot.topics.values()
        for state in topic.partitions.values()
    )


def _by_log_dir(read: Callable[[LogDirectory], bool]) -> Callable[[Source], Readings]:
    return lambda source: [((str(one.path),), float(read(one))) for one in source.services.logs.dirs.all]


def _delayed(source: Source) -> Readings:
    replicas = source.services.replicas
    return [(("fetch",), replicas.fetches.size), (("produce",), replicas.produces.size)]


def _connections(source: Source) -> Readings:
    return [((name,), len(acceptor.connections)) for name, acceptor in source.acceptors.items()]


_API = ("api",)
_ENTITY = ("quota", "user", "client_id")
_GROUP = ("group",)
_LOG_DIR = ("log_dir",)
_TOPIC = ("topic",)
_PARTITION = ("topic", "partition")

# fmt: off
METRICS: tuple[Metric, ...] = (
    Metric("ottla_requests", COUNTER, _API, "Requests answered.", _by_api(lambda api: api.requests)),
    Metric("ottla_request_errors", COUNTER, _API, "Requests that failed with an unexpected error.",
           _by_api(lambda api: api.errors)),
    Metric("ottla_request_bytes", COUNTER, _API, "Bytes of request frames.",
           _by_api(lambda api: api.request_bytes)),
    Metric("ottla_response_bytes", COUNTER, _API, "Bytes of response frames.",
           _by_api(lambda api: api.response_bytes)),
    Metric("ottla_rejected_frames", COUNTER, (), "Frames that were not valid requests; their connections were closed.",
           _single(lambda source: source.services.metrics.rejected_frames)),
    Metric("ottla_connections", GAUGE, ("listener",), "Open client connections.", _connections),
    Metric("ottla_tasks", GAUGE, (), "Asyncio tasks that have not ended.", _single(lambda _: len(asyncio.all_tasks()))),
    Metric("ottla_quota_rate", GAUGE, _ENTITY,
           "What the clients of an entity with a quota use a second: bytes, percent of an event loop, or partitions.",
           lambda source: quota_metrics.rates(source.services)),
    Metric("ottla_quota_limit", GAUGE, _ENTITY, "The quota of an entity, in the same unit.",
           _by_entity(lambda share: share.measure.quota)),
    Metric("ottla_quota_throttled_requests", COUNTER, _ENTITY, "Requests that were throttled because of a quota.",
           _by_entity(lambda share: share.throttled)),
    Metric("ottla_quota_throttled_seconds", COUNTER, _ENTITY, "Time for which these requests were throttled.",
           _by_entity(lambda share: share.throttled_ms / 1000)),
    Metric("ottla_produced_bytes", COUNTER, _TOPIC, "Bytes of record batches appended for producers.",
           _by_topic(lambda one: one.produced_bytes)),
    Metric("ottla_produced_records", COUNTER, _TOPIC, "Records appended for producers.",
           _by_topic(lambda one: one.produced_records)),
    Metric("ottla_fetched_bytes", COUNTER, _TOPIC, "Bytes of record batches sent to consumers.",
           _by_topic(lambda one: one.fetched_bytes)),
    Metric("ottla_partitions", GAUGE, (), "Partitions that this broker hosts.",
           _single(lambda source: len(source.services.replicas.partitions))),
    Metric("ottla_leader_partitions", GAUGE, (), "Partitions that this broker leads.",
           _such(lambda one: one.is_leader)),
    Metric("ottla_under_replicated_partitions", GAUGE, (),
           "Partitions led by this broker that have a replica out of sync.",
           _such(lambda one: one.is_under_replicated)),
    Metric("ottla_under_min_isr_partitions", GAUGE, (),
           "Partitions led by this broker with fewer replicas in sync than min.insync.replicas: acks=all is refused.",
           _such(lambda one: one.is_under_min_isr)),
    Metric("ottla_isr_expands", COUNTER, (), "Replicas added to the ISR of a partition led by this broker.",
           _of_isr(lambda changes: changes.expanded)),
    Metric("ottla_isr_shrinks", COUNTER, (), "Times that the ISR of a partition led by this broker has shrunk.",
           _of_isr(lambda changes: changes.shrunk)),
    Metric("ottla_failed_isr_updates", COUNTER, (), "ISR changes that were refused or came too late.",
           _of_isr(lambda changes: changes.failed)),
    Metric("ottla_replica_lag", GAUGE, _PARTITION,
           "Committed records that this broker, a follower, does not have yet, as of the leader's last answer.",
           lambda source: replication_metrics.lag(source.services)),
    Metric("ottla_failed_replicas", GAUGE, (),
           "Partitions followed but not fetched, after an error until the controller's next request.",
           _single(lambda source: replication_metrics.failed_partitions(source.services))),
    Metric("ottla_replicated_bytes_in", COUNTER, _TOPIC, "Bytes of record batches fetched from leaders.",
           _by_topic(lambda one: one.replicated_bytes_in)),
    Metric("ottla_replicated_bytes_out", COUNTER, _TOPIC, "Bytes of record batches sent to followers.",
           _by_topic(lambda one: one.replicated_bytes_out)),
    Metric("ottla_offline_partitions", GAUGE, (),
           "Partitions of the cluster without a live leader; only the controller counts them.", _single(_offline)),
    Metric("ottla_log_size_bytes", GAUGE, _PARTITION, "Bytes of the log's segments on this broker.",
           _by_log(lambda log: log.size_bytes)),
    Metric("ottla_log_start_offset", GAUGE, _PARTITION, "First offset that can be read.",
           _by_log(lambda log: log.log_start_offset)),
    Metric("ottla_log_end_offset", GAUGE, _PARTITION, "Offset that the next record gets.",
           _by_log(lambda log: log.log_end_offset)),
    Metric("ottla_high_watermark", GAUGE, _PARTITION, "Offset below which records are committed.",
           _by_log(lambda log: log.high_watermark)),
    Metric("ottla_log_dir_online", GAUGE, _LOG_DIR, "1 while the log directory is in use, 0 after its failure.",
           _by_log_dir(lambda directory: directory.is_online)),
    Metric("ottla_log_dir_full", GAUGE, _LOG_DIR, "1 after a write without disk space until there is space, else 0.",
           _by_log_dir(lambda directory: directory.is_full)),
    Metric("ottla_controller_active", GAUGE, (), "1 on the broker that is the controller, else 0.",
           _single(lambda source: float(source.services.is_controller()))),
    Metric("ottla_controller_epoch", GAUGE, (), "Latest controller epoch that this broker knows.",
           _single(lambda source: source.services.replicas.controller_requests.controller_epoch)),
    Metric("ottla_fetch_sessions", GAUGE, (), "Open incremental fetch sessions.",
           _single(lambda source: len(source.services.fetch_sessions))),
    Metric("ottla_delayed_requests", GAUGE, ("kind",), "Fetches that wait for bytes, produces that wait for replicas.",
           _delayed),
    Metric("ottla_groups", GAUGE, ("state",), "Groups that this broker coordinates.",
           lambda source: coordinator_metrics.groups_by_state(source.services)),
    Metric("ottla_group_members", GAUGE, _GROUP, "Members of a group.", _by_group(lambda group: len(group.members))),
    Metric("ottla_group_generation", GAUGE, _GROUP, "Generation of a group (the group epoch of KIP-848's).",
           _by_group(coordinator_metrics.generation)),
    Metric("ottla_group_committed_offset", GAUGE, ("group", *_PARTITION), "Offset that a group has committed.",
           lambda source: coordinator_metrics.committed_offsets(source.services)),
    Metric("ottla_transactional_ids", GAUGE, ("state",), "Transactional ids that this broker coordinates.",
           lambda source: coordinator_metrics.transactions_by_state(source.services)),
    Metric("ottla_cleaner_runs", COUNTER, (), "Completed compactions.",
           _by_cleaner(lambda cleaner: cleaner.totals.runs)),
    Metric("ottla_cleaner_read_bytes", COUNTER, (), "Bytes of record batches that compaction has read.",
           _by_cleaner(lambda cleaner: cleaner.totals.bytes_read)),
    Metric("ottla_cleaner_written_bytes", COUNTER, (), "Bytes of record batches that compaction has kept.",
           _by_cleaner(lambda cleaner: cleaner.totals.bytes_written)),
    Metric("ottla_cleaner_removed_records", COUNTER, (), "Records that compaction has removed.",
           _by_cleaner(lambda cleaner: cleaner.totals.records_read - cleaner.totals.records_written)),
    Metric("ottla_cleaner_seconds", COUNTER, (), "Time of all compactions, summed over all workers.",
           _by_cleaner(lambda cleaner: cleaner.totals.seconds)),
    Metric("ottla_cleaner_max_dirty_ratio", GAUGE, (),
           "Share of bytes not compacted yet in the dirtiest log at the last check: 0 to 1.",
           _by_cleaner(lambda cleaner: cleaner.max_dirty_ratio)),
    Metric("ottla_cleaner_last_run_timestamp_seconds", GAUGE, (), "Time of the last search for a log to compact.",
           _by_cleaner(lambda cleaner: cleaner.last_run_ms / 1000)),
    Metric("ottla_cleaner_uncleanable_partitions", GAUGE, ("directory",),
           "Partitions of a log directory that cannot be compacted: the broker's log says why.",
           _uncleanable(lambda cleaner, path: cleaner.uncleanable_partitions(path))),
    Metric("ottla_cleaner_uncleanable_bytes", GAUGE, ("directory",),
           "Bytes to compact in these partitions.",
           _uncleanable(lambda cleaner, path: cleaner.uncleanable_bytes(path))),
    Metric("ottla_build_info", GAUGE, ("version", "broker_id", "cluster_id"), "Always 1: what runs here.",
           lambda source: [((source.version, str(source.services.broker_id), source.services.cluster_id), 1.0)]),
)
# fmt: on

DURATION = "ottla_request_duration_seconds"
DURATION_DOCUMENTATION = "Time from a request's arrival to its answer, including long polls."
