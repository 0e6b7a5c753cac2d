"""Ottla: a Kafka broker in asyncio Python, and the client that goes with it.

    from ottla import Admin, Broker, BrokerConfig, Producer, Reader

What is exported is imported when it is first used, so that `import ottla` and the start of the broker cost
next to nothing. The exceptions are in `ottla.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.config import BrokerConfig
    from client.accumulator import RecordMetadata
    from client.ack_mode import AckMode, Acknowledgment
    from client.admin import Admin
    from client.admin_features import Features, FeatureVersions
    from client.admin_types import (
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
        OffsetAndMetadata,
        Replica,
        ReplicaSize,
        ResourceType,
        TransactionDescription,
        TransactionListing,
    )
    from client.assignors import (
        RangeAssignor,
        RoundRobinAssignor,
    )
    from client.chunk_assembler import ChunkAssembler, GivenUp
    from client.chunking_consumer import ChunkingConsumer
    from client.chunking_producer import ChunkingProducer
    from client.claim_check_consumer import ClaimCheckConsumer
    from client.claim_check_producer import ClaimCheckProducer
    from client.consumer import Consumer
    from client.error_handlers import DeadLetter, ErrorHandler, Retry, Skip, Stop
    from client.errors import KafkaError
    from client.fetched import ConsumerRecord
    from client.group_metadata import ConsumerGroupMetadata
    from client.listener_container import ListenerContainer
    from client.metadata import BrokerMetadata, PartitionMetadata, TopicMetadata
    from client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndTimestamp
    from client.partitioner import DefaultPartitioner, Partitioner, RoundRobinPartitioner, StickyPartitioner
    from client.producer import Producer
    from client.rate_limit import RateLimit
    from client.reader import Reader
    from client.reader_state import Timestamp
    from client.rebalance_listener import RebalanceListener
    from client.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
    from client.topic_filter import TopicFilter
    from client.topic_partition import TopicPartition
    from client.zookeeper_consumer import ZooKeeperConsumer
    from client.zookeeper_rebalance import ZooKeeperRebalanceListener
    from ottla import errors

__version__: Final = "0.1.0"

_EXPORTS: Final = {
    "broker.broker": ("Broker",),
    "broker.config": ("BrokerConfig",),
    "client.accumulator": ("RecordMetadata",),
    "client.ack_mode": ("AckMode", "Acknowledgment"),
    "client.admin": ("Admin",),
    "client.admin_features": ("FeatureVersions", "Features"),
    "client.admin_types": (
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
        "OffsetAndMetadata",
        "Replica",
        "ReplicaSize",
        "ResourceType",
        "TransactionDescription",
        "TransactionListing",
    ),
    "client.assignors": ("RangeAssignor", "RoundRobinAssignor"),
    "client.chunk_assembler": ("ChunkAssembler", "GivenUp"),
    "client.chunking_consumer": ("ChunkingConsumer",),
    "client.chunking_producer": ("ChunkingProducer",),
    "client.claim_check_consumer": ("ClaimCheckConsumer",),
    "client.claim_check_producer": ("ClaimCheckProducer",),
    "client.consumer": ("Consumer",),
    "client.error_handlers": ("DeadLetter", "ErrorHandler", "Retry", "Skip", "Stop"),
    "client.errors": ("KafkaError",),
    "client.fetched": ("ConsumerRecord",),
    "client.group_metadata": ("ConsumerGroupMetadata",),
    "client.listener_container": ("ListenerContainer",),
    "client.metadata": ("BrokerMetadata", "PartitionMetadata", "TopicMetadata"),
    "client.offsets": ("EARLIEST", "LATEST", "MAX_TIMESTAMP", "OffsetAndTimestamp"),
    "client.partitioner": ("DefaultPartitioner", "Partitioner", "RoundRobinPartitioner", "StickyPartitioner"),
    "client.producer": ("Producer",),
    "client.rate_limit": ("RateLimit",),
    "client.reader": ("Reader",),
    "client.reader_state": ("Timestamp",),
    "client.rebalance_listener": ("RebalanceListener",),
    "client.sticky_assignor": ("CooperativeStickyAssignor", "StickyAssignor"),
    "client.topic_filter": ("TopicFilter",),
    "client.topic_partition": ("TopicPartition",),
    "client.zookeeper_consumer": ("ZooKeeperConsumer",),
    "client.zookeeper_rebalance": ("ZooKeeperRebalanceListener",),
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
