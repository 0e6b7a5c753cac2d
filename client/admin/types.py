"""What the admin client takes and gives."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from client.topic_partition import TopicPartition
from client.wire.metadata import BrokerMetadata

USE_BROKER_DEFAULT = -1


class ResourceType(IntEnum):
    """What a configuration belongs to (DescribeConfigs, AlterConfigs)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigSource(IntEnum):
    """Where a setting's value comes from, as DescribeConfigs says."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does to one setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class NewTopic(NamedTuple):
    """A topic to create: counts (-1: the broker's default) or an explicit `assignment` of partition to
    replicas.
    """

    name: str
    partitions: int = USE_BROKER_DEFAULT
    replication_factor: int = USE_BROKER_DEFAULT
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = {}


class CreatedTopic(NamedTuple):
    """A topic as created. `topic_id` is 16 bytes, zero from an old broker; counts are -1 from an old
    broker.
    """

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


class ConfigEntry(NamedTuple):
    """One setting.

    `value` is None where the broker keeps it to itself; `synonyms` are (name, value, source) in the order in
    which they take precedence.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    documentation: str | None
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...]

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source == ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    """One change to a setting; `value` does not matter for DELETE."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class ClusterDescription(NamedTuple):
    """The brokers, which of them is the controller (-1: none), and the cluster's id."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerMetadata, ...]


class Replica(NamedTuple):
    """One replica of a partition: that of a broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker_id}"


class ReplicaSize(NamedTuple):
    """One replica in a log directory; a future one is the copy of a replica that is being moved there.

    `offset_lag` is how many records it is behind the high watermark, a future one behind the end of what it copies; -1
    where the broker does not know.
    """

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """One log directory of a broker; totals are -1 from an old broker."""

    broker_id: int
    path: str
    error_code: int
    replicas: tuple[ReplicaSize, ...]
    total_bytes: int
    usable_bytes: int


class GroupListing(NamedTuple):
    """A group as ListGroups tells. `state` and `type` are "" from a broker that is too old to say."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


class GroupMember(NamedTuple):
    """A member of a group. `assignment` is None where it is none of a consumer's, or cannot be read."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] | None


class GroupDescription(NamedTuple):
    """A group with its members. `type` is "classic" or "consumer" (KIP-848), `assignor` "" while none is chosen."""

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: int


class TransactionListing(NamedTuple):
    """A transactional id as ListTransactions tells."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator knows it. `start_time_ms` is -1 while no transaction is open;
    `partitions` are those that take part and have no marker yet.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator: int


class ActiveProducer(NamedTuple):
    """A producer as a partition's leader knows it. Each is -1 where there is none: the last sequence, the epoch of the
    coordinator whose marker came last, the offset at which the open transaction began.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class ElectionType(IntEnum):
    """Who may be elected: the preferred leader, the first of the replicas, or where there is no leader also one that is
    not in sync, which loses records.
    """

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A partition that is being moved: its replicas now, those that come and those that go; broker ids."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it will have."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)
