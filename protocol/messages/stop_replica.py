"""The controller tells a broker to stop serving replicas, and to delete them if asked.

Version 0 lists partitions flat, 1 groups them by topic, 3 adds leader epochs and a flag for each partition.
"""

from __future__ import annotations

from protocol.fields import array, boolean, int16, int32, int64, string
from protocol.message import Message


class StopReplicaPartitionV0(Message):
    topic_name: str = string("0")
    partition_index: int = int32("0")


class StopReplicaTopicV1(Message):
    name: str = string("1-2")
    partition_indexes: list[int] = array(int32, "1-2")


class StopReplicaPartitionState(Message):
    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+")


class StopReplicaTopicState(Message):
    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")


class StopReplicaRequest(Message, api_key=5, versions="0-4", flexible="2+"):
    controller_id: int = int32("0+")
    is_k_raft_controller: bool = boolean("4+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


class StopReplicaPartitionError(Message):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class StopReplicaResponse(Message, api_key=5, versions="0-4", flexible="2+"):
    error_code: int = int16("0+")
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError, "0+")
