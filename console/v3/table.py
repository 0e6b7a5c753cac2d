"""The table of operations: method, path, handler, the right that it needs, and the models of its bodies.

The paths of one resource are in the order in which they are tried: `/topics/-/…` before `/topics/{topic_name}/…`.
"""

from __future__ import annotations

from typing import Final

from console.v3 import brokers, clusters, partitions, topics
from console.v3.operation import ApiOperation, Parameter, Right
from security.acls.types import Operation, ResourceType

_DESCRIBE_CLUSTER: Final = Right(Operation.DESCRIBE)
_CREATE_TOPIC: Final = Right(Operation.CREATE, ResourceType.TOPIC, "topic_name")
_DESCRIBE_TOPIC: Final = Right(Operation.DESCRIBE, ResourceType.TOPIC, "topic_name")
_ALTER_TOPIC: Final = Right(Operation.ALTER, ResourceType.TOPIC, "topic_name")
_DELETE_TOPIC: Final = Right(Operation.DELETE, ResourceType.TOPIC, "topic_name")

_CLUSTER: Final = "/clusters/{cluster_id}"
_BROKER: Final = f"{_CLUSTER}/brokers/{{broker_id}}"
_TOPIC: Final = f"{_CLUSTER}/topics/{{topic_name}}"
_PARTITION: Final = f"{_TOPIC}/partitions/{{partition_id}}"

_CLUSTERS: Final = (
    ApiOperation("GET", "/clusters", clusters.list_clusters, _DESCRIBE_CLUSTER, clusters.ClusterList),
    ApiOperation("GET", _CLUSTER, clusters.get_cluster, _DESCRIBE_CLUSTER, clusters.ClusterData),
)

_BROKERS: Final = (
    ApiOperation("GET", f"{_CLUSTER}/brokers", brokers.list_brokers, _DESCRIBE_CLUSTER, brokers.BrokerList),
    ApiOperation("GET", _BROKER, brokers.get_broker, _DESCRIBE_CLUSTER, brokers.BrokerData),
    ApiOperation(
        "GET",
        f"{_BROKER}/partition-replicas",
        partitions.list_broker_replicas,
        _DESCRIBE_CLUSTER,
        partitions.ReplicaList,
    ),
)

_TOPICS: Final = (
    ApiOperation("GET", f"{_CLUSTER}/topics", topics.list_topics, _DESCRIBE_CLUSTER, topics.TopicList),
    ApiOperation(
        "POST", f"{_CLUSTER}/topics", topics.create_topic, _CREATE_TOPIC, topics.TopicData, 201, topics.CreateTopic
    ),
    ApiOperation("GET", _TOPIC, topics.get_topic, _DESCRIBE_TOPIC, topics.TopicData),
    ApiOperation(
        "PATCH",
        _TOPIC,
        topics.update_partition_count,
        _ALTER_TOPIC,
        topics.TopicData,
        takes=topics.UpdatePartitionCount,
    ),
    ApiOperation("DELETE", _TOPIC, topics.delete_topic, _DELETE_TOPIC, status=204),
)

_PARTITIONS: Final = (
    ApiOperation(
        "GET",
        f"{_CLUSTER}/topics/-/partitions/-/reassignment",
        partitions.list_all_reassignments,
        _DESCRIBE_CLUSTER,
        partitions.ReassignmentList,
    ),
    ApiOperation(
        "GET",
        f"{_TOPIC}/partitions/-/reassignment",
        partitions.list_topic_reassignments,
        _DESCRIBE_TOPIC,
        partitions.ReassignmentList,
    ),
    ApiOperation("GET", f"{_TOPIC}/partitions", partitions.list_partitions, _DESCRIBE_TOPIC, partitions.PartitionList),
    ApiOperation("GET", _PARTITION, partitions.get_partition, _DESCRIBE_TOPIC, partitions.PartitionData),
    ApiOperation(
        "GET",
        f"{_PARTITION}/offset",
        partitions.get_partition_offsets,
        _DESCRIBE_TOPIC,
        partitions.PartitionOffsets,
        query=(Parameter("offset_type", choices=("EARLIEST", "LATEST")),),
    ),
    ApiOperation(
        "GET",
        f"{_PARTITION}/reassignment",
        partitions.get_reassignment,
        _DESCRIBE_TOPIC,
        partitions.ReassignmentData,
    ),
    ApiOperation("GET", f"{_PARTITION}/replicas", partitions.list_replicas, _DESCRIBE_TOPIC, partitions.ReplicaList),
    ApiOperation(
        "GET", f"{_PARTITION}/replicas/{{broker_id}}", partitions.get_replica, _DESCRIBE_TOPIC, partitions.ReplicaData
    ),
)

OPERATIONS: Final = (*_CLUSTERS, *_BROKERS, *_TOPICS, *_PARTITIONS)
