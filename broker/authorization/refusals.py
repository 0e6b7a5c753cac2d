"""Answers to requests that are refused as a whole, where Kafka's has more than `Handler.failed` says."""

from __future__ import annotations

from broker.apis.elect_leaders import refused as refused_elections
from broker.apis.leader_and_isr import refused as refused_leader_and_isr
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse

__all__ = [
    "refused_credentials",
    "refused_elections",
    "refused_leader_and_isr",
    "refused_reassignments",
    "refused_replicas",
]


def refused_credentials(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, version: int
) -> DescribeUserScramCredentialsResponse:
    """Return the answer to DescribeUserScramCredentials: the code for the request and for one user without a name."""
    result = DescribeUserScramCredentialsResult(error_code=code)
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=code.name, results=[result])


def refused_replicas(request: StopReplicaRequest, code: ErrorCode, version: int) -> StopReplicaResponse:
    """Return the answer to StopReplica: the code for the request and for each partition."""
    named = [(one.topic_name, one.partition_index) for one in request.ungrouped_partitions]
    named += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    named += [
        (topic.topic_name, state.partition_index) for topic in request.topic_states for state in topic.partition_states
    ]
    errors = [StopReplicaPartitionError(topic_name=topic, partition_index=one, error_code=code) for topic, one in named]
    return StopReplicaResponse(error_code=code, partition_errors=errors)


def refused_reassignments(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, version: int
) -> AlterPartitionReassignmentsResponse:
    """Return the answer to AlterPartitionReassignments: the code for the request and for each partition."""
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=one.partition_index, error_code=code, error_message=None
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
