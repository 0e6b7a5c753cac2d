"""The topics that requests name: of every API that names topics, found in fields filled with recognizable values."""

from broker.requests.api_table import API_TABLE
from ottla.testing.request_topics import topics_of
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.fetch import FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from support.filled_messages import filled
from support.wire import batch, produce


def test_names_and_ids():
    assert topics_of(produce("orders", batch(b"v"))).names == {"orders"}
    topics = [FetchTopic(topic="a"), FetchTopic(topic_id=b"\1" * 16)]
    assert topics_of(FetchRequest(topics=topics)) == ({"a"}, {bytes(16), b"\1" * 16})
    assert topics_of(MetadataRequest(topics=None)) == (set(), set())
    group = OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="b")])
    assert topics_of(OffsetFetchRequest(groups=[group])).names == {"b"}


def test_a_setting_is_no_topic():
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name="orders"),
        DescribeConfigsResource(resource_type=4, resource_name="1"),
    ]
    assert topics_of(DescribeConfigsRequest(resources=resources)).names == {"orders"}


NAME_TOPICS = {
    *("PRODUCE", "FETCH", "LIST_OFFSETS", "METADATA", "DELETE_RECORDS", "OFFSET_FOR_LEADER_EPOCH"),
    *("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA", "ALTER_PARTITION", "ELECT_LEADERS"),
    *("OFFSET_COMMIT", "OFFSET_FETCH", "OFFSET_DELETE", "CONSUMER_GROUP_HEARTBEAT"),
    *("CREATE_TOPICS", "DELETE_TOPICS", "CREATE_PARTITIONS"),
    *("ADD_PARTITIONS_TO_TXN", "WRITE_TXN_MARKERS", "TXN_OFFSET_COMMIT", "DESCRIBE_PRODUCERS"),
    *("DESCRIBE_CONFIGS", "INCREMENTAL_ALTER_CONFIGS", "ALTER_CONFIGS", "CREATE_ACLS"),
    *("ALTER_REPLICA_LOG_DIRS", "DESCRIBE_LOG_DIRS"),
    *("ALTER_PARTITION_REASSIGNMENTS", "LIST_PARTITION_REASSIGNMENTS"),
}


def _value(field):
    if field.kind == "string":
        return "orders"
    if field.kind == "uuid":
        return b"\1" * 16
    return 2 if field.name == "resource_type" else 0


def test_every_api_whose_requests_name_topics():
    found = set()
    for api in API_TABLE:
        for version in range(api.min_version, api.max_version + 1):
            named = topics_of(filled(api.request, version, _value, text="orders"))
            if named.names or b"\1" * 16 in named.ids:
                found.add(api.key.name)
    assert found == NAME_TOPICS
