"""The table of what each API needs, against the matrix that was recorded from Apache Kafka."""

import csv

import pytest

from broker.authorization.rules import RULES, SENT_BY_BROKERS
from broker.requests.api_table import API_TABLE
from protocol.api_keys import ApiKey
from security.acls.types import Operation, ResourceType
from support.reference import REFERENCE

MORE_THAN_KAFKA = {
    "ConsumerGroupHeartbeat": {("Group", "Read"), ("Topic", "Describe")},
    "ConsumerGroupDescribe": {("Group", "Describe"), ("Topic", "Describe")},
}
"""Refused by Kafka in ZooKeeper mode; as Kafka 4.0 with KRaft."""
ONLY_IN_ANSWERS = {
    "Metadata": {("Cluster", "Describe")},
    "DeleteTopics": {("Topic", "Describe")},
}
"""Needed for a part of the answer; the matrix says so in a note."""


def matrix():
    """Pairs of resource type and operation by API."""
    needs = {}
    with (REFERENCE / "security" / "matrix.tsv").open() as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            of_api = needs.setdefault(row["api"], set())
            of_api |= set(pairs(row["resource_type"], row["operation"], row["notes"] or ""))
    return needs


def pairs(resources, operations, notes):
    if operations.startswith("IdempotentWrite on Cluster"):
        yield from (("Cluster", "IdempotentWrite"), ("Topic", "Write"))
    elif operations == "Describe or DescribeTokens":
        yield from (("DelegationToken", "Describe"), ("User", "DescribeTokens"))
    elif operations != "-":
        for resource in resources.split(" (")[0].split(" or "):
            for operation in operations.split(" or "):
                yield resource, operation
    if notes.startswith("or Cluster ClusterAction"):
        yield "Cluster", "ClusterAction"


@pytest.mark.parametrize("api", sorted(RULES))
def test_a_rule_needs_what_kafka_needs(api):
    name = next((one for one in matrix() if one.upper() == api.name.replace("_", "")), None)
    assert name is not None, api
    found = {(need.resource.label, need.operation.label) for need in RULES[api].needs}
    expected = MORE_THAN_KAFKA.get(name, matrix()[name]) | ONLY_IN_ANSWERS.get(name, set())
    if name == "DescribeCluster":
        expected = set()
    assert found == expected


def test_every_api_that_is_served_has_a_rule():
    assert [api.name for api in API_TABLE if api.key not in RULES] == []


def test_every_api_of_kafka_has_a_rule():
    names = {key.name.replace("_", "") for key in RULES}
    assert {name for name in matrix() if name.upper() not in names} == {"Envelope"}


def test_what_only_brokers_send():
    assert {key.name for key in SENT_BY_BROKERS} == {
        "ALLOCATE_PRODUCER_IDS",
        "ALTER_PARTITION",
        "CONTROLLED_SHUTDOWN",
        "LEADER_AND_ISR",
        "STOP_REPLICA",
        "UPDATE_METADATA",
        "WRITE_TXN_MARKERS",
    }


def test_labels_are_those_of_kafka():
    assert ResourceType.TRANSACTIONAL_ID.label == "TransactionalId"
    assert Operation.IDEMPOTENT_WRITE.label == "IdempotentWrite"
    assert ApiKey.PRODUCE in RULES
