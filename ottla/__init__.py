"""Ottla: a Kafka broker in asyncio Python, and the client that goes with it.

    from ottla import Admin, Broker, BrokerConfig, Producer, Reader

Each exported name is imported on first use, so that `import ottla` and the start of the broker stay fast.
The exceptions are in `ottla.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.settings.config import BrokerConfig
    from client.admin.admin import Admin
    from client.admin.features import Features, FeatureVersions
    from client.admin.types import (
        ActiveProducer,
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigOperation,
        ConfigSource,
        CreatedTopic,
        GroupDescription,
        GroupListing,
        GroupMember,
        LogDirDescription,
        NewTopic,
        Replica,
        ReplicaSize,
        ResourceType,
        TransactionDescription,
        TransactionListing,
    )
    from client.consumer.assignors import (
        RangeAssignor,
        RoundRobinAssignor,
    )
    from client.consumer.consumer import Consumer
    from client.consumer.fetched import ConsumerRecord
    from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
    from client.consumer.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndTimestamp
    from client.consumer.reader import Reader
    from client.consumer.reader_state import Timestamp
    from client.consumer.rebalance_listener import RebalanceListener
    from client.consumer.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
    from client.errors import KafkaError
    from client.large_messages.chunk_assembler import ChunkAssembler, GivenUp
    from client.large_messages.chunking_consumer import ChunkingConsumer
    from client.large_messages.chunking_producer import ChunkingProducer
    from client.large_messages.claim_check_consumer import ClaimCheckConsumer
    from client.large_messages.claim_check_producer import ClaimCheckProducer
    from client.listener.ack_mode import AckMode, Acknowledgment
    from client.listener.container import ListenerContainer
    from client.listener.error_handlers import DeadLetter, ErrorHandler, Retry, Skip, Stop
    from client.listener.rate_limit import RateLimit
    from client.producer.accumulator import RecordMetadata
    from client.producer.partitioner import DefaultPartitioner, Partitioner, RoundRobinPartitioner, StickyPartitioner
    from client.producer.producer import Producer
    from client.topic_partition import TopicPartition
    from client.wire.metadata import BrokerMetadata, PartitionMetadata, TopicMetadata
    from client.zookeeper.consumer import ZooKeeperConsumer
    from client.zookeeper.rebalance import ZooKeeperRebalanceListener
    from client.zookeeper.topic_filter import TopicFilter
    from ottla import errors

__version__: Final = "0.1.0"

_EXPORTS: Final = {
    "broker.broker": ("Broker",),
    "broker.settings.config": ("BrokerConfig",),
    "client.producer.accumulator": ("RecordMetadata",),
    "client.listener.ack_mode": ("AckMode", "Acknowledgment"),
    "client.admin.admin": ("Admin",),
    "client.admin.features": ("FeatureVersions", "Features"),
    "client.admin.types": (
        "ActiveProducer",
        "ClusterDescription",
        "ConfigChange",
        "ConfigEntry",
        "ConfigOperation",
        "ConfigSource",
        "CreatedTopic",
        "GroupDescription",
        "GroupListing",
        "GroupMember",
        "LogDirDescription",
        "NewTopic",
        "Replica",
        "ReplicaSize",
        "ResourceType",
        "TransactionDescription",
        "TransactionListing",
    ),
    "client.consumer.assignors": ("RangeAssignor", "RoundRobinAssignor"),
    "client.large_messages.chunk_assembler": ("ChunkAssembler", "GivenUp"),
    "client.large_messages.chunking_consumer": ("ChunkingConsumer",),
    "client.large_messages.chunking_producer": ("ChunkingProducer",),
    "client.large_messages.claim_check_consumer": ("ClaimCheckConsumer",),
    "client.large_messages.claim_check_producer": ("ClaimCheckProducer",),
    "client.consumer.consumer": ("Consumer",),
    "client.listener.error_handlers": ("DeadLetter", "ErrorHandler", "Retry", "Skip", "Stop"),
    "client.errors": ("KafkaError",),
    "client.consumer.fetched": ("ConsumerRecord",),
    "client.consumer.group_metadata": ("ConsumerGroupMetadata", "OffsetAndMetadata"),
    "client.listener.container": ("ListenerContainer",),
    "client.wire.metadata": ("BrokerMetadata", "PartitionMetadata", "TopicMetadata"),
    "client.consumer.offsets": ("EARLIEST", "LATEST", "MAX_TIMESTAMP", "OffsetAndTimestamp"),
    "client.producer.partitioner": ("DefaultPartitioner", "Partitioner", "RoundRobinPartitioner", "StickyPartitioner"),
    "client.producer.producer": ("Producer",),
    "client.listener.rate_limit": ("RateLimit",),
    "client.consumer.reader": ("Reader",),
    "client.consumer.reader_state": ("Timestamp",),
    "client.consumer.rebalance_listener": ("RebalanceListener",),
    "client.consumer.sticky_assignor": ("CooperativeStickyAssignor", "StickyAssignor"),
    "client.zookeeper.topic_filter": ("TopicFilter",),
    "client.topic_partition": ("TopicPartition",),
    "client.zookeeper.consumer": ("ZooKeeperConsumer",),
    "client.zookeeper.rebalance": ("ZooKeeperRebalanceListener",),
}
_HOMES: Final = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "AckMode",
    "Acknowledgment",
    "ActiveProducer",
    "Admin",
    "Broker",
    "BrokerConfig",
    "BrokerMetadata",
    "ChunkAssembler",
    "ChunkingConsumer",
    "ChunkingProducer",
    "ClaimCheckConsumer",
    "ClaimCheckProducer",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigSource",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "CooperativeStickyAssignor",
    "CreatedTopic",
    "DeadLetter",
    "DefaultPartitioner",
    "ErrorHandler",
    "FeatureVersions",
    "Features",
    "GivenUp",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "KafkaError",
    "ListenerContainer",
    "LogDirDescription",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "Partitioner",
    "Producer",
    "RangeAssignor",
    "RateLimit",
    "Reader",
    "RebalanceListener",
    "RecordMetadata",
    "Replica",
    "ReplicaSize",
    "ResourceType",
    "Retry",
    "RoundRobinAssignor",
    "RoundRobinPartitioner",
    "Skip",
    "StickyAssignor",
    "StickyPartitioner",
    "Stop",
    "Timestamp",
    "TopicFilter",
    "TopicMetadata",
    "TopicPartition",
    "TransactionDescription",
    "TransactionListing",
    "ZooKeeperConsumer",
    "ZooKeeperRebalanceListener",
    "errors",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        value: Any = import_module("ottla.errors")
    elif name in _HOMES:
        from ottla.guard import check_packages

        check_packages()
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
