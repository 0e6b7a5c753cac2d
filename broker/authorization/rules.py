"""The table of what each API needs: the one place that says so.

A broker with an authorizer serves no API without a row.
`tests/broker/authorization/test_rules.py` compares it with the matrix that was recorded from Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.authorization.group_rules import (
    AddPartitionsToTxnRule,
    ConsumerGroupDescribeRule,
    ConsumerGroupHeartbeatRule,
    DescribeDelegationTokenRule,
    DescribeGroupsRule,
    DescribeTransactionsRule,
    FindCoordinatorRule,
    ListGroupsRule,
    ListTransactionsRule,
    OffsetFetchRule,
)
from broker.authorization.produce_rule import ProduceRule
from broker.authorization.refusals import (
    refused_credentials,
    refused_elections,
    refused_leader_and_isr,
    refused_reassignments,
    refused_replicas,
)
from broker.authorization.rule import ERRORS, Check, Each, Gate, Need, Open, Rule, Whole, each_topic, named
from broker.authorization.special_rules import (
    BROKER_CONFIG,
    BROKER_LOGGER_CONFIG,
    CLIENT_METRICS_CONFIG,
    ConfigsRule,
    CreateTopicsRule,
    DeleteTopicsRule,
    DescribeClusterRule,
    FetchRule,
    InitProducerIdRule,
    MetadataRule,
    cluster,
)
from broker.requests.context import RequestContext
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from security.acls.types import Operation, ResourceType
from security.principal import Principal

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
READ, WRITE, DELETE, ALTER, DESCRIBE = (
    Operation.READ,
    Operation.WRITE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
)


def _group(operation: Operation) -> Check:
    return Check(GROUP, operation, name=lambda request, context: request.group_id)


def _transaction() -> Check:
    return Check(TRANSACTIONAL_ID, WRITE, name=lambda request, context: request.transactional_id)


def _synced_group(request: Any, context: RequestContext) -> str | None:
    """Return the group; None for a request that is inconsistent, which Kafka refuses before it asks for permission."""
    is_inconsistent = context.api_version >= 5 and not (request.protocol_type and request.protocol_name)
    return None if is_inconsistent else str(request.group_id)


def _other_owner(request: Any, context: RequestContext) -> str | None:
    """Return the owner of a new token, if it is somebody else."""
    if not request.owner_principal_name:
        return None
    owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    return None if owner == context.principal else str(owner)


def _epoch_topic(part: Any, request: Any, context: RequestContext, gate: Gate) -> ErrorCode | None:
    may = gate.sees(context, Need(CLUSTER, Operation.CLUSTER_ACTION))
    return None if may or gate.allows(context, Need(TOPIC, DESCRIBE), part.topic) else ERRORS[TOPIC]


def _refused_offsets(topics: list[OffsetDeleteRequestTopic], code: ErrorCode) -> list[OffsetDeleteResponseTopic]:
    return [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=code)
                for one in topic.partitions
            ],
        )
        for topic in topics
    ]


BETWEEN_BROKERS: Final = Whole(cluster(Operation.CLUSTER_ACTION))

RULES: Final[Mapping[ApiKey, Rule]] = {
    ApiKey.PRODUCE: ProduceRule(),
    ApiKey.FETCH: FetchRule(),
    ApiKey.LIST_OFFSETS: each_topic("topics", "topics", DESCRIBE),
    ApiKey.METADATA: MetadataRule(),
    ApiKey.LEADER_AND_ISR: Whole(cluster(Operation.CLUSTER_ACTION), refuse=refused_leader_and_isr),
    ApiKey.STOP_REPLICA: Whole(cluster(Operation.CLUSTER_ACTION), refuse=refused_replicas),
    ApiKey.UPDATE_METADATA: BETWEEN_BROKERS,
    ApiKey.CONTROLLED_SHUTDOWN: BETWEEN_BROKERS,
    ApiKey.OFFSET_COMMIT: each_topic("topics", "topics", READ, checks=[_group(READ)]),
    ApiKey.OFFSET_FETCH: OffsetFetchRule(),
    ApiKey.FIND_COORDINATOR: FindCoordinatorRule(),
    ApiKey.JOIN_GROUP: Whole(_group(READ)),
    ApiKey.HEARTBEAT: Whole(_group(READ)),
    ApiKey.LEAVE_GROUP: Whole(_group(READ)),
    ApiKey.SYNC_GROUP: Whole(Check(GROUP, READ, name=_synced_group)),
    ApiKey.DESCRIBE_GROUPS: DescribeGroupsRule("groups"),
    ApiKey.LIST_GROUPS: ListGroupsRule(),
    ApiKey.SASL_HANDSHAKE: Open(),
    ApiKey.API_VERSIONS: Open(),
    ApiKey.CREATE_TOPICS: CreateTopicsRule(),
    ApiKey.DELETE_TOPICS: DeleteTopicsRule(),
    ApiKey.DELETE_RECORDS: each_topic("topics", "topics", DELETE),
    ApiKey.INIT_PRODUCER_ID: InitProducerIdRule(),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Each(
        "topics", "topics", _epoch_topic, [Need(TOPIC, DESCRIBE), Need(CLUSTER, Operation.CLUSTER_ACTION)]
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRule(),
    ApiKey.ADD_OFFSETS_TO_TXN: Whole(_transaction(), _group(READ)),
    ApiKey.END_TXN: Whole(_transaction()),
    ApiKey.WRITE_TXN_MARKERS: Whole(cluster(ALTER, Operation.CLUSTER_ACTION)),
    ApiKey.TXN_OFFSET_COMMIT: each_topic("topics", "topics", READ, checks=[_transaction(), _group(READ)]),
    ApiKey.DESCRIBE_ACLS: Whole(cluster(DESCRIBE)),
    ApiKey.CREATE_ACLS: Whole(cluster(ALTER)),
    ApiKey.DELETE_ACLS: Whole(cluster(ALTER)),
    ApiKey.DESCRIBE_CONFIGS: ConfigsRule(
        "results", Operation.DESCRIBE_CONFIGS, BROKER_CONFIG, BROKER_LOGGER_CONFIG, CLIENT_METRICS_CONFIG
    ),
    ApiKey.ALTER_CONFIGS: ConfigsRule("responses", Operation.ALTER_CONFIGS, BROKER_CONFIG, BROKER_LOGGER_CONFIG),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Whole(cluster(ALTER)),
    ApiKey.DESCRIBE_LOG_DIRS: Whole(cluster(DESCRIBE)),
    ApiKey.SASL_AUTHENTICATE: Open(),
    ApiKey.CREATE_PARTITIONS: each_topic("topics", "results", ALTER),
    ApiKey.CREATE_DELEGATION_TOKEN: Whole(Check(ResourceType.USER, Operation.CREATE_TOKENS, name=_other_owner)),
    ApiKey.RENEW_DELEGATION_TOKEN: Open(),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Open(),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: DescribeDelegationTokenRule(),
    ApiKey.DELETE_GROUPS: Each("groups_names", "results", named(GROUP, DELETE, None), [Need(GROUP, DELETE)]),
    ApiKey.ELECT_LEADERS: Whole(cluster(ALTER), refuse=refused_elections),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ConfigsRule(
        "responses", Operation.ALTER_CONFIGS, BROKER_CONFIG, BROKER_LOGGER_CONFIG
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Whole(cluster(ALTER), refuse=refused_reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Whole(cluster(DESCRIBE)),
    ApiKey.OFFSET_DELETE: each_topic("topics", "topics", READ, checks=[_group(DELETE)], refuse=_refused_offsets),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Whole(cluster(Operation.DESCRIBE_CONFIGS)),
    ApiKey.ALTER_CLIENT_QUOTAS: Whole(cluster(Operation.ALTER_CONFIGS)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Whole(cluster(DESCRIBE), refuse=refused_credentials),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Whole(cluster(ALTER)),
    ApiKey.ALTER_PARTITION: BETWEEN_BROKERS,
    ApiKey.UPDATE_FEATURES: Whole(cluster(ALTER)),
    ApiKey.DESCRIBE_CLUSTER: DescribeClusterRule(),
    ApiKey.DESCRIBE_PRODUCERS: each_topic("topics", "topics", READ),
    ApiKey.DESCRIBE_TRANSACTIONS: DescribeTransactionsRule(),
    ApiKey.LIST_TRANSACTIONS: ListTransactionsRule(),
    ApiKey.ALLOCATE_PRODUCER_IDS: BETWEEN_BROKERS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRule(),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRule("group_ids"),
}

SENT_BY_BROKERS: Final = frozenset(
    key
    for key, rule in RULES.items()
    if isinstance(rule, Whole) and Need(CLUSTER, Operation.CLUSTER_ACTION) in rule.needs
)
"""The APIs that only brokers use. Without an authorizer, they are served only on the inter-broker listener."""
