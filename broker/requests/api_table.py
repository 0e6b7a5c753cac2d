"""The APIs that this broker serves: dispatch, version checks, ApiVersions and documentation use this one table.

A row holds the API, its range of versions and its handler. ApiVersions announces exactly these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from broker.apis.add_offsets_to_txn import AddOffsetsToTxnHandler
from broker.apis.add_partitions_to_txn import AddPartitionsToTxnHandler
from broker.apis.allocate_producer_ids import AllocateProducerIdsHandler
from broker.apis.alter_client_quotas import AlterClientQuotasHandler
from broker.apis.alter_configs import AlterConfigsHandler
from broker.apis.alter_partition import AlterPartitionHandler
from broker.apis.alter_partition_reassignments import AlterPartitionReassignmentsHandler
from broker.apis.alter_replica_log_dirs import AlterReplicaLogDirsHandler
from broker.apis.alter_user_scram_credentials import AlterUserScramCredentialsHandler
from broker.apis.api_versions import ApiVersionsHandler
from broker.apis.consumer_group_describe import ConsumerGroupDescribeHandler
from broker.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatHandler
from broker.apis.controlled_shutdown import ControlledShutdownHandler
from broker.apis.create_acls import CreateAclsHandler
from broker.apis.create_delegation_token import CreateDelegationTokenHandler
from broker.apis.create_partitions import CreatePartitionsHandler
from broker.apis.create_topics import CreateTopicsHandler
from broker.apis.delete_acls import DeleteAclsHandler
from broker.apis.delete_groups import DeleteGroupsHandler
from broker.apis.delete_records import DeleteRecordsHandler
from broker.apis.delete_topics import DeleteTopicsHandler
from broker.apis.describe_acls import DescribeAclsHandler
from broker.apis.describe_client_quotas import DescribeClientQuotasHandler
from broker.apis.describe_cluster import DescribeClusterHandler
from broker.apis.describe_configs import DescribeConfigsHandler
from broker.apis.describe_delegation_token import DescribeDelegationTokenHandler
from broker.apis.describe_groups import DescribeGroupsHandler
from broker.apis.describe_log_dirs import DescribeLogDirsHandler
from broker.apis.describe_producers import DescribeProducersHandler
from broker.apis.describe_transactions import DescribeTransactionsHandler
from broker.apis.describe_user_scram_credentials import DescribeUserScramCredentialsHandler
from broker.apis.elect_leaders import ElectLeadersHandler
from broker.apis.end_txn import EndTxnHandler
from broker.apis.expire_delegation_token import ExpireDelegationTokenHandler
from broker.apis.fetch import FetchHandler
from broker.apis.find_coordinator import FindCoordinatorHandler
from broker.apis.heartbeat import HeartbeatHandler
from broker.apis.incremental_alter_configs import IncrementalAlterConfigsHandler
from broker.apis.init_producer_id import InitProducerIdHandler
from broker.apis.join_group import JoinGroupHandler
from broker.apis.leader_and_isr import LeaderAndIsrHandler
from broker.apis.leave_group import LeaveGroupHandler
from broker.apis.list_groups import ListGroupsHandler
from broker.apis.list_offsets import ListOffsetsHandler
from broker.apis.list_partition_reassignments import ListPartitionReassignmentsHandler
from broker.apis.list_transactions import ListTransactionsHandler
from broker.apis.metadata import MetadataHandler
from broker.apis.offset_commit import OffsetCommitHandler
from broker.apis.offset_delete import OffsetDeleteHandler
from broker.apis.offset_fetch import OffsetFetchHandler
from broker.apis.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from broker.apis.produce import ProduceHandler
from broker.apis.renew_delegation_token import RenewDelegationTokenHandler
from broker.apis.sasl_authenticate import SaslAuthenticateHandler
from broker.apis.sasl_handshake import SaslHandshakeHandler
from broker.apis.stop_replica import StopReplicaHandler
from broker.apis.sync_group import SyncGroupHandler
from broker.apis.txn_offset_commit import TxnOffsetCommitHandler
from broker.apis.update_features import UpdateFeaturesHandler
from broker.apis.update_metadata import UpdateMetadataHandler
from broker.apis.write_txn_markers import WriteTxnMarkersHandler
from broker.requests.handler import AnyHandler
from broker.services import Services
from protocol.api_keys import ApiKey, request_class
from protocol.message import Message


class Api(NamedTuple):
    """One row of the table."""

    key: ApiKey
    min_version: int
    max_version: int
    handler: Callable[[Services], AnyHandler]
    announced_version: int | None = None
    """The highest version that ApiVersions announces, if it is below `max_version`: what brokers send to each other."""

    @property
    def announced(self) -> tuple[int, int, int]:
        """(API key, lowest, highest version), for ApiVersions."""
        highest = self.max_version if self.announced_version is None else self.announced_version
        return self.key, self.min_version, highest

    @property
    def name(self) -> str:
        """The name of the API in Kafka, without "Request"."""
        return self.request.NAME.removesuffix("Request")

    @property
    def request(self) -> type[Message]:
        """The class that decodes requests of this API."""
        return request_class(self.key)


WrapHandler: TypeAlias = Callable[[Api, AnyHandler], AnyHandler]
"""Returns the handler that answers the requests of an API, given the broker's own."""


def unwrapped(api: Api, handler: AnyHandler) -> AnyHandler:
    """Return the handler as it is."""
    return handler


API_TABLE: tuple[Api, ...] = (
    Api(ApiKey.PRODUCE, 0, 11, ProduceHandler),
    Api(ApiKey.FETCH, 0, 17, FetchHandler),
    Api(ApiKey.LIST_OFFSETS, 0, 9, ListOffsetsHandler),
    Api(ApiKey.METADATA, 0, 12, MetadataHandler),
    Api(ApiKey.LEADER_AND_ISR, 0, 7, LeaderAndIsrHandler),
    Api(ApiKey.STOP_REPLICA, 0, 4, StopReplicaHandler),
    Api(ApiKey.UPDATE_METADATA, 0, 8, UpdateMetadataHandler),
    Api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, ControlledShutdownHandler),
    Api(ApiKey.OFFSET_COMMIT, 0, 9, OffsetCommitHandler),
    Api(ApiKey.OFFSET_FETCH, 0, 9, OffsetFetchHandler),
    Api(ApiKey.FIND_COORDINATOR, 0, 6, FindCoordinatorHandler),
    Api(ApiKey.JOIN_GROUP, 0, 9, JoinGroupHandler),
    Api(ApiKey.HEARTBEAT, 0, 4, HeartbeatHandler),
    Api(ApiKey.LEAVE_GROUP, 0, 5, LeaveGroupHandler),
    Api(ApiKey.SYNC_GROUP, 0, 5, SyncGroupHandler),
    Api(ApiKey.DESCRIBE_GROUPS, 0, 5, DescribeGroupsHandler),
    Api(ApiKey.LIST_GROUPS, 0, 5, ListGroupsHandler),
    Api(ApiKey.SASL_HANDSHAKE, 0, 1, SaslHandshakeHandler),
    Api(ApiKey.API_VERSIONS, 0, 4, ApiVersionsHandler),
    Api(ApiKey.CREATE_TOPICS, 0, 7, CreateTopicsHandler),
    Api(ApiKey.DELETE_TOPICS, 0, 6, DeleteTopicsHandler),
    Api(ApiKey.DELETE_RECORDS, 0, 2, DeleteRecordsHandler),
    Api(ApiKey.INIT_PRODUCER_ID, 0, 5, InitProducerIdHandler),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, OffsetForLeaderEpochHandler),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, AddPartitionsToTxnHandler),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, AddOffsetsToTxnHandler),
    Api(ApiKey.END_TXN, 0, 4, EndTxnHandler),
    Api(ApiKey.WRITE_TXN_MARKERS, 0, 1, WriteTxnMarkersHandler),
    Api(ApiKey.TXN_OFFSET_COMMIT, 0, 4, TxnOffsetCommitHandler),
    Api(ApiKey.DESCRIBE_ACLS, 0, 3, DescribeAclsHandler),
    Api(ApiKey.CREATE_ACLS, 0, 3, CreateAclsHandler),
    Api(ApiKey.DELETE_ACLS, 0, 3, DeleteAclsHandler),
    Api(ApiKey.DESCRIBE_CONFIGS, 0, 4, DescribeConfigsHandler),
    Api(ApiKey.ALTER_CONFIGS, 0, 2, AlterConfigsHandler),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, AlterReplicaLogDirsHandler),
    Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 4, DescribeLogDirsHandler),
    Api(ApiKey.SASL_AUTHENTICATE, 0, 2, SaslAuthenticateHandler),
    Api(ApiKey.CREATE_PARTITIONS, 0, 3, CreatePartitionsHandler),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, CreateDelegationTokenHandler),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, RenewDelegationTokenHandler),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, ExpireDelegationTokenHandler),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, DescribeDelegationTokenHandler),
    Api(ApiKey.DELETE_GROUPS, 0, 2, DeleteGroupsHandler),
    Api(ApiKey.ELECT_LEADERS, 0, 2, ElectLeadersHandler),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, IncrementalAlterConfigsHandler),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0, AlterPartitionReassignmentsHandler),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, ListPartitionReassignmentsHandler),
    Api(ApiKey.OFFSET_DELETE, 0, 0, OffsetDeleteHandler),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, DescribeUserScramCredentialsHandler),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, AlterUserScramCredentialsHandler),
    Api(ApiKey.ALTER_PARTITION, 0, 3, AlterPartitionHandler),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, DescribeClientQuotasHandler),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, AlterClientQuotasHandler),
    Api(ApiKey.UPDATE_FEATURES, 0, 1, UpdateFeaturesHandler),
    Api(ApiKey.DESCRIBE_CLUSTER, 0, 1, DescribeClusterHandler),
    Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, DescribeProducersHandler),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, DescribeTransactionsHandler),
    Api(ApiKey.LIST_TRANSACTIONS, 0, 1, ListTransactionsHandler),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, AllocateProducerIdsHandler),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, ConsumerGroupHeartbeatHandler),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, ConsumerGroupDescribeHandler),
)
