"""What DescribeConfigs says, held against answers recorded from Apache Kafka 3.9."""

import json

import pytest

from broker.settings.config import BrokerConfig
from broker.settings.described import DescribedConfig
from broker.settings.dynamic import DynamicBrokerConfig
from support.reference import REFERENCE


def recorded(resource_type):
    """The entries of the recorded answers about topics (2) or brokers (4), one list of them an answer."""
    answers = []
    for path in sorted((REFERENCE / "wire").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            frame = json.loads(line)
            if frame["api_key"] == 32 and frame["direction"] == "response":
                answers += [
                    result["configs"]
                    for result in frame["decoded"]["results"]
                    if result["resourceType"] == resource_type and result["configs"]
                ]
    assert answers
    return answers


def as_recorded(described: DescribedConfig):
    return {
        "name": described.name,
        "value": described.value,
        "readOnly": described.read_only,
        "configSource": int(described.source),
        "isSensitive": described.sensitive,
        "synonyms": [{"name": n, "value": v, "source": int(s)} for n, v, s in described.synonyms],
        "configType": described.type,
        "documentation": None,
    }


OTHER_DEFAULTS = {"group.coordinator.rebalance.protocols"}  # the newer protocol is served, too
NOT_IN_KAFKAS_TABLE = {"allow.everyone.if.no.acl.found", "replica.lag.max.messages", "super.users"}
"""Of Kafka's AclAuthorizer, which has a table of its own, and of Kafka 0.8."""


@pytest.mark.parametrize("number", range(len(recorded(4))))
def test_broker_is_described_as_kafka_does(number):
    entries = recorded(4)[number]
    static = {
        synonym["name"]: synonym["value"]
        for entry in entries
        for synonym in entry["synonyms"]
        if synonym["source"] == 4
    }
    ours = {d.name: as_recorded(d) for d in DynamicBrokerConfig(BrokerConfig(static)).describe_broker()}
    theirs = {name for name in ours if not name.startswith("ottla.")} - NOT_IN_KAFKAS_TABLE
    assert theirs == {entry["name"] for entry in entries}
    for entry in entries:
        if entry["name"] not in OTHER_DEFAULTS:
            assert ours[entry["name"]] == entry


@pytest.mark.parametrize("given", ["broker.id", "node.id"])
def test_one_name_of_the_broker_s_id_sets_both_as_in_kafka(given):
    [entries] = [one for one in recorded(4) if {"broker.id", "node.id"} <= {entry["name"] for entry in one}][:1]
    ours = {d.name: as_recorded(d) for d in DynamicBrokerConfig(BrokerConfig({given: "0"})).describe_broker()}
    for entry in entries:
        if entry["name"] in ("broker.id", "node.id"):
            assert ours[entry["name"]] == entry


@pytest.mark.parametrize("number", range(len(recorded(2))))
def test_topic_is_described_as_kafka_does(number):
    entries = recorded(2)[number]
    overrides = {entry["name"]: entry["value"] for entry in entries if entry["configSource"] == 1}
    ours = [as_recorded(d) for d in DynamicBrokerConfig(BrokerConfig({})).describe_topic(overrides)]
    assert ours == sorted(entries, key=lambda entry: entry["name"])
