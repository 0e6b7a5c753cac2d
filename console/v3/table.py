"""The table of operations: method, path, handler, the right that it needs, and the models of its bodies.

The paths of one resource are in the order in which they are tried: `/topics/-/…` before `/topics/{topic_name}/…`.
"""

from __future__ import annotations

from typing import Final

from console.rest.operation import ApiOperation, Parameter, Right
from console.v3 import acls, brokers, clusters, configs, groups, lags, partitions, record_data, records, topics
from security.acls.types import Operation, ResourceType

_DESCRIBE_CLUSTER: Final = Right(Operation.DESCRIBE)
_ALTER_CLUSTER: Final = Right(Operation.ALTER)
_CREATE_TOPIC: Final = Right(Operation.CREATE, ResourceType.TOPIC, "topic_name", or_on_cluster=True)
_DESCRIBE_TOPIC: Final = Right(Operation.DESCRIBE, ResourceType.TOPIC, "topic_name")
_ALTER_TOPIC: Final = Right(Operation.ALTER, ResourceType.TOPIC, "topic_name")
_DESCRIBE_TOPIC_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "topic_name")
_ALTER_TOPIC_CONFIGS: Final = Right(Operation.ALTER_CONFIGS, ResourceType.TOPIC, "topic_name")
_DESCRIBE_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS)
_ALTER_CONFIGS: Final = Right(Operation.ALTER_CONFIGS)
_DESCRIBE_GROUP: Final = Right(Operation.DESCRIBE, ResourceType.GROUP, "consumer_group_id")
_WRITE_TOPIC: Final = Right(Operation.WRITE, ResourceType.TOPIC, "topic_name")
_DELETE_TOPIC: Final = Right(Operation.DELETE, ResourceType.TOPIC, "topic_name")

_CLUSTER: Final = "/clusters/{cluster_id}"
_BROKER: Final = f"{_CLUSTER}/brokers/{{broker_id}}"
_TOPIC: Final = f"{_CLUSTER}/topics/{{topic_name}}"
_PARTITION: Final = f"{_TOPIC}/partitions/{{partition_id}}"
_GROUPS: Final = f"{_CLUSTER}/consumer-groups"
_GROUP: Final = f"{_GROUPS}/{{consumer_group_id}}"
_CONSUMER: Final = f"{_GROUP}/consumers/{{consumer_id}}"
_OF_PARTITION: Final = "{topic_name}/partitions/{partition_id}"

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

_CONFIGS: Final = (
    ApiOperation(
        "GET",
        f"{_CLUSTER}/topics/-/configs",
        configs.list_configs_of_all_topics,
        _DESCRIBE_CLUSTER,
        configs.TopicConfigList,
    ),
    ApiOperation(
        "GET", f"{_TOPIC}/configs", configs.list_topic_configs, _DESCRIBE_TOPIC_CONFIGS, configs.TopicConfigList
    ),
    ApiOperation(
        "POST",
        f"{_TOPIC}/configs:alter",
        configs.alter_topic_configs,
        _ALTER_TOPIC_CONFIGS,
        status=204,
        takes=configs.AlterConfigs,
    ),
    ApiOperation(
        "GET", f"{_TOPIC}/configs/{{name}}", configs.get_topic_config, _DESCRIBE_TOPIC_CONFIGS, configs.TopicConfigData
    ),
    ApiOperation(
        "PUT",
        f"{_TOPIC}/configs/{{name}}",
        configs.update_topic_config,
        _ALTER_TOPIC_CONFIGS,
        status=204,
        takes=configs.UpdateConfig,
    ),
    ApiOperation("DELETE", f"{_TOPIC}/configs/{{name}}", configs.reset_topic_config, _ALTER_TOPIC_CONFIGS, status=204),
    ApiOperation(
        "GET",
        f"{_CLUSTER}/brokers/-/configs",
        configs.list_configs_of_all_brokers,
        _DESCRIBE_CONFIGS,
        configs.BrokerConfigList,
    ),
    ApiOperation("GET", f"{_BROKER}/configs", configs.list_broker_configs, _DESCRIBE_CONFIGS, configs.BrokerConfigList),
    ApiOperation(
        "POST",
        f"{_BROKER}/configs:alter",
        configs.alter_broker_configs,
        _ALTER_CONFIGS,
        status=204,
        takes=configs.AlterConfigs,
    ),
    ApiOperation(
        "GET", f"{_BROKER}/configs/{{name}}", configs.get_broker_config, _DESCRIBE_CONFIGS, configs.BrokerConfigData
    ),
    ApiOperation(
        "PUT",
        f"{_BROKER}/configs/{{name}}",
        configs.update_broker_config,
        _ALTER_CONFIGS,
        status=204,
        takes=configs.UpdateConfig,
    ),
    ApiOperation("DELETE", f"{_BROKER}/configs/{{name}}", configs.reset_broker_config, _ALTER_CONFIGS, status=204),
    ApiOperation(
        "GET", f"{_CLUSTER}/broker-configs", configs.list_cluster_configs, _DESCRIBE_CONFIGS, configs.ClusterConfigList
    ),
    ApiOperation(
        "POST",
        f"{_CLUSTER}/broker-configs:alter",
        configs.alter_cluster_configs,
        _ALTER_CONFIGS,
        status=204,
        takes=configs.AlterConfigs,
    ),
    ApiOperation(
        "GET",
        f"{_CLUSTER}/broker-configs/{{name}}",
        configs.get_cluster_config,
        _DESCRIBE_CONFIGS,
        configs.ClusterConfigData,
    ),
    ApiOperation(
        "PUT",
        f"{_CLUSTER}/broker-configs/{{name}}",
        configs.update_cluster_config,
        _ALTER_CONFIGS,
        status=204,
        takes=configs.UpdateConfig,
    ),
    ApiOperation(
        "DELETE", f"{_CLUSTER}/broker-configs/{{name}}", configs.reset_cluster_config, _ALTER_CONFIGS, status=204
    ),
)

_CONSUMER_GROUPS: Final = (
    ApiOperation("GET", _GROUPS, groups.list_groups, _DESCRIBE_CLUSTER, groups.GroupList),
    ApiOperation("GET", _GROUP, groups.get_group, _DESCRIBE_GROUP, groups.GroupData),
    ApiOperation("GET", f"{_GROUP}/consumers", groups.list_consumers, _DESCRIBE_GROUP, groups.ConsumerList),
    ApiOperation("GET", _CONSUMER, groups.get_consumer, _DESCRIBE_GROUP, groups.ConsumerData),
    ApiOperation("GET", f"{_CONSUMER}/assignments", groups.list_assignments, _DESCRIBE_GROUP, groups.AssignmentList),
    ApiOperation(
        "GET",
        f"{_CONSUMER}/assignments/{_OF_PARTITION}",
        groups.get_assignment,
        _DESCRIBE_GROUP,
        groups.AssignmentData,
    ),
    ApiOperation("GET", f"{_GROUP}/lag-summary", lags.get_lag_summary, _DESCRIBE_GROUP, lags.LagSummary),
    ApiOperation("GET", f"{_GROUP}/lags", lags.list_lags, _DESCRIBE_GROUP, lags.LagList),
    ApiOperation("GET", f"{_GROUP}/lags/{_OF_PARTITION}", lags.get_lag, _DESCRIBE_GROUP, lags.LagData),
)

_ACLS: Final = (
    ApiOperation("GET", f"{_CLUSTER}/acls", acls.list_acls, _DESCRIBE_CLUSTER, acls.AclList, query=acls.parameters()),
    ApiOperation("POST", f"{_CLUSTER}/acls", acls.create_acl, _ALTER_CLUSTER, status=201, takes=acls.NewAcl),
    ApiOperation("POST", f"{_CLUSTER}/acls:batch", acls.create_acls, _ALTER_CLUSTER, status=201, takes=acls.NewAcls),
    ApiOperation(
        "DELETE",
        f"{_CLUSTER}/acls",
        acls.delete_acls,
        _ALTER_CLUSTER,
        acls.DeletedAcls,
        query=acls.parameters(("resource_type", "pattern_type", "operation", "permission")),
    ),
)

_RECORDS: Final = (
    ApiOperation(
        "POST",
        f"{_TOPIC}/records",
        records.produce,
        _WRITE_TOPIC,
        records.ProducedRecord,
        takes=record_data.Record,
        is_stream=True,
    ),
    ApiOperation(
        "POST",
        f"{_TOPIC}/records:batch",
        records.produce_batch,
        _WRITE_TOPIC,
        records.ProducedBatch,
        207,
        records.Batch,
    ),
)

OPERATIONS: Final = (*_CLUSTERS, *_ACLS, *_CONFIGS, *_BROKERS, *_TOPICS, *_PARTITIONS, *_CONSUMER_GROUPS, *_RECORDS)
