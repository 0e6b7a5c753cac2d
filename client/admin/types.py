"""Arguments and results of the admin client."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from client.topic_partition import TopicPartition
from client.wire.metadata import BrokerMetadata
from security.secret import hides

USE_BROKER_DEFAULT = -1


class ResourceType(IntEnum):
    """The owner of a setting (DescribeConfigs, AlterConfigs)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigSource(IntEnum):
    """The source of a setting's value (DescribeConfigs)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class ConfigType(IntEnum):
    """The type of a setting's value (DescribeConfigs since version 3; UNKNOWN from older brokers)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigOperation(IntEnum):
    """An operation of IncrementalAlterConfigs on one setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class NewTopic(NamedTuple):
    """A topic to create: counts (-1: the broker's default), or an explicit `assignment` of replicas to partitions."""

    name: str
    partitions: int = USE_BROKER_DEFAULT
    replication_factor: int = USE_BROKER_DEFAULT
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = {}


class CreatedTopic(NamedTuple):
    """A topic as created. An old broker does not report `topic_id` (16 bytes, then zero) and the counts (then -1)."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


class ConfigEntry(NamedTuple):
    """One setting.

    `value` is None if the broker hides it; `synonyms` are (name, value, source), in order of precedence.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    documentation: str | None
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...]
    type: ConfigType = ConfigType.UNKNOWN

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.source == ConfigSource.DEFAULT_CONFIG

    @property
    def is_topics_own(self) -> bool:
        """Whether the value was set for this topic."""
        return self.source == ConfigSource.DYNAMIC_TOPIC_CONFIG


@hides("value")
class ConfigChange(NamedTuple):
    """One change of a setting; `value` is ignored for DELETE."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class ClusterDescription(NamedTuple):
    """The brokers, the node id of the controller (-1: none), and the cluster id."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerMetadata, ...]


class Replica(NamedTuple):
    """The replica of a partition on one broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker_id}"


class ReplicaSize(NamedTuple):
    """One replica in a log directory; a future replica is the copy of a replica that is being moved there.

    `offset_lag` is the number of records behind the high watermark, for a future replica behind the log end offset of
    the original; -1 if the broker does not know it.
    """

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """One log directory of a broker; an old broker does not report the totals (then -1)."""

    broker_id: int
    path: str
    error_code: int
    replicas: tuple[ReplicaSize, ...]
    total_bytes: int
    usable_bytes: int


class GroupListing(NamedTuple):
    """A group as listed by ListGroups. `state` and `type` are "" if the broker is too old to report them."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


class GroupMember(NamedTuple):
    """A member of a group. `assignment` is None if the member is not a consumer, or if it cannot be decoded.

    `epoch` (-1: none) and `target` (what the coordinator wants the member to have) are of the new protocol (KIP-848).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] | None
    epoch: int = -1
    target: tuple[TopicPartition, ...] | None = None


class GroupDescription(NamedTuple):
    """A group with its members. `type` is "classic" or "consumer" (KIP-848); `assignor` is "" until one is chosen.

    The epochs, of the group and of its target assignment, are of the new protocol; -1 for a classic group.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: int
    epoch: int = -1
    assignment_epoch: int = -1


class TransactionListing(NamedTuple):
    """A transactional id as listed by ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionDescription(NamedTuple):
    """A transactional id in its coordinator's state. `start_time_ms` is -1 if no transaction is open; `partitions` are
    those of the transaction that have no marker yet.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator: int


class FencedProducer(NamedTuple):
    """The producer id of a transactional id, and the epoch that has fenced its producers."""

    producer_id: int
    producer_epoch: int


class ActiveProducer(NamedTuple):
    """A producer in the state of a partition's leader. -1 stands for an unknown last sequence, for the coordinator
    epoch if there was no marker yet, and for the start offset if no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class ElectionType(IntEnum):
    """Which replica may be elected: the preferred leader (the first of the replicas); or, if there is no leader, also
    one outside of the ISR, which loses records.
    """

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A partition that is being moved: its current replicas, those being added and those being removed; broker ids."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class ServedApi(NamedTuple):
    """One API of a broker.

    `lowest` and `highest` are the versions that the broker serves, both inclusive; `used` is the highest version that
    this client has too, None if there is none. `name` is Kafka's, such as "ListOffsets".
    """

    api_key: int
    name: str
    lowest: int
    highest: int
    used: int | None
