"""`ottla brokers`, `ottla log-dirs` and `ottla cluster describe`, with one broker and with a cluster of two."""

import pytest

from client.admin.types import ClusterDescription, LogDirDescription
from client.wire.metadata import BrokerMetadata, PartitionMetadata, TopicMetadata
from ottla.commands.broker_facts import broker_documents
from ottla.commands.log_dirs import directory_document
from support.broker import broker_process
from support.every_broker import until_every_broker
from support.json_fields import not_printed, printed_fields
from support.mock_cluster import MockCluster
from support.zookeeper import new_chroot, shared_zookeeper


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two brokers of a cluster; the second one has a rack and two log directories."""
    folder = tmp_path_factory.mktemp("pair")
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    shared = {"zookeeper_connect": connect, "group_initial_rebalance_delay_ms": "0"}
    second = {"broker_id": "2", "broker_rack": "east", "log_dirs": f"{folder}/two,{folder}/three"}
    with (
        broker_process(folder / "one", broker_id="1", **shared) as one,
        broker_process(folder / "second", **second, **shared) as two,
    ):
        yield one, two


@pytest.fixture
def topics_are(pair):
    """Waits until both brokers know these topics and no others: a command asks any of the two."""

    def wait(*names):
        servers = [one.bootstrap for one in pair]
        until_every_broker(servers, lambda _, topics: topics == set(names), f"the topics are {names}")

    return wait


@pytest.fixture
def at(ottla, pair, monkeypatch):
    """Runs a command against the pair."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", pair[1].bootstrap)
    until_every_broker([one.bootstrap for one in pair], lambda known, _: known == {1, 2}, "both brokers are known")
    return ottla


def test_a_cluster(at, pair, topics_are):
    at("topics", "create", "both", "--replica-assignment", "1:2,2:1,2:1")
    at("topics", "create", "strict", "--replica-assignment", "2", "-c", "min.insync.replicas=2")
    topics_are("both", "strict")
    document = at("cluster", "describe", "--json").json
    assert at("cluster", "id").out == f"{document['cluster_id']}\n"
    assert document["controller"] in (1, 2)
    assert (document["topics"], document["partitions"], document["replicas"]) == (2, 4, 7)
    assert document["under_replicated_partitions"] == document["unavailable_partitions"] == 0
    assert document["under_min_isr_partitions"] == 1
    one, two = document["brokers"]
    assert (one["broker"], one["port"], one["rack"], one["leaders"], one["replicas"]) == (1, pair[0].port, None, 1, 3)
    assert (two["broker"], two["host"], two["rack"], two["leaders"], two["replicas"]) == (2, "127.0.0.1", "east", 3, 4)
    assert one["is_controller"] != two["is_controller"]
    assert document["brokers"] == at("brokers", "list", "--json").json
    lines = at("cluster", "describe").out.splitlines()
    assert lines[0].split() == ["cluster", "id", document["cluster_id"]]
    assert [line.split()[:2] for line in lines[-2:]] == [["1", "127.0.0.1"], ["2", "127.0.0.1"]]
    at("topics", "delete", "both", "strict")
    topics_are()


def test_describe_brokers(at, pair, topics_are):
    at("topics", "create", "described", "--replica-assignment", "1:2,2:1,2:1,2:1")
    topics_are("described")
    described = at("brokers", "describe", "2", "--json")
    assert not_printed("brokers describe", printed_fields(described.out)) == []
    [two] = described.json
    assert two["configs"]["broker.rack"] == "east"
    assert [one["log_dir"] for one in two["log_dirs"]] == [
        str(pair[1].log_dir.parent / name) for name in ("two", "three")
    ]
    assert two["topics"] == [{"topic": "described", "leads": [1, 2, 3], "follows": [0]}]
    text = at("brokers", "describe").out
    assert f"broker 1  127.0.0.1:{pair[0].port}, " in text
    assert f"broker 2  127.0.0.1:{pair[1].port}, rack east, " in text
    assert "  broker.rack=east\n" in text
    assert "\ndescribed  1-3    0 " in text
    assert "broker 7: the cluster has no such live broker, only 1, 2" in at("brokers", "describe", 7, code=1).err
    at("topics", "delete", "described")
    topics_are()


def test_log_dirs(at, topics_are):
    at("topics", "create", "sized", "--replica-assignment", "1,1")
    at("topics", "create", "other", "--replica-assignment", "1:2")
    topics_are("other", "sized")
    at("produce", "sized", "-p", 1, stdin=b"x" * 500 + b"\n")
    [first, *rest] = at("log-dirs", "sized", "--json").json
    assert [one["broker"] for one in (first, *rest)] == [1, 2, 2]
    assert first["error"] is None
    assert 0 < first["usable_bytes"] <= first["total_bytes"]
    assert first["replica_count"] >= 3
    assert [(one["topic"], one["partition"], one["offset_lag"], one["is_future"]) for one in first["replicas"]] == [
        ("sized", 0, 0, False),
        ("sized", 1, 0, False),
    ]
    assert [one["size_bytes"] > 500 for one in first["replicas"]] == [False, True]
    assert [one["replicas"] for one in rest] == [[], []]
    rows = [line.split()[:3] for line in at("log-dirs", "-r", "sized|other").out.split("\n\n")[1].splitlines()[1:]]
    assert rows == [["other", "0", "1"], ["other", "0", "2"], ["sized", "0", "1"], ["sized", "1", "1"]]
    assert {one["broker"] for one in at("log-dirs", "--broker", 2, "--json").json} == {2}
    assert "sized" not in at("log-dirs", "--summary").out
    assert "did you mean sized?" in at("log-dirs", "sizd", code=1).err
    assert "--broker 9: the cluster has no such live broker, only 1, 2" in at("log-dirs", "--broker", 9, code=1).err
    at("topics", "delete", "sized", "other")
    topics_are()


def test_api_versions_of_two_brokers(at):
    one, two = at("api-versions", "--json").json
    assert (one["broker"], two["broker"]) == (1, 2)
    assert one["apis"] == two["apis"]
    by_name = {api["api"]: api for api in one["apis"]}
    assert by_name["Metadata"]["api_key"] == 3
    assert by_name["Metadata"]["min_version"] <= by_name["Metadata"]["used_version"]
    lines = at("api-versions").out.splitlines()
    assert lines[0].split() == ["key", "api", "brokers", "1,2", "used"]
    assert len(lines) == len(one["apis"]) + 1
    assert at("api-versions", "--broker", 1).out.splitlines()[0].split() == ["key", "api", "broker", "1", "used"]


def test_an_unknown_error_code_of_a_log_directory_is_shown():
    document = directory_document(LogDirDescription(1, "/data", 999, (), -1, -1))
    assert "999" in document["error"]


def test_a_broker_that_is_not_alive_is_listed_if_it_has_replicas():
    partition = PartitionMetadata(0, 1, 5, (1, 2), (1,), (2,), 0)
    topics = {"t": TopicMetadata("t", bytes(16), False, 0, {0: partition})}
    cluster = ClusterDescription("id", 1, (BrokerMetadata(1, "here", 9092, None),))
    one, two = broker_documents(cluster, topics, {1: []})
    assert (one["is_alive"], one["leaders"], one["out_of_sync_replicas"], one["size_bytes"]) == (True, 1, 0, 0)
    assert (two["is_alive"], two["host"], two["replicas"], two["out_of_sync_replicas"]) == (False, None, 1, 1)
    assert two["size_bytes"] is None


def test_brokers_that_serve_few_apis(ottla):
    """librdkafka's mock cluster has neither DescribeConfigs nor DescribeLogDirs."""
    cluster = MockCluster()
    server = ("-b", cluster.bootstrap)
    ottla("produce", "t", *server, stdin=b"x\n")
    document = ottla("cluster", "describe", "--json", *server).json
    assert (document["under_replicated_partitions"], document["under_min_isr_partitions"]) == (0, None)
    assert [(one["broker"], one["size_bytes"]) for one in document["brokers"]] == [(1, None), (2, None), (3, None)]
    [broker] = ottla("brokers", "describe", "1", "--json", *server).json
    assert (broker["configs"], broker["log_dirs"]) == (None, [])
    assert "broker 1  127.0.0.1:" in ottla("brokers", "describe", "1", *server).out
    assert "under min isr partitions     -" in ottla("cluster", "describe", *server).out


def test_options_of_a_new_cluster_do_not_apply_to_a_running_one(at):
    refused = at("cluster", "--brokers", "3", "describe", code=1).err
    assert "--brokers is an option of `ottla cluster` alone" in refused
    for words in (("-b", "127.0.0.1:1", "cluster"), ("cluster", "-b", "127.0.0.1:1")):
        assert "`ottla cluster` starts a cluster and has no option --bootstrap-server" in at(*words, code=1).err


def test_the_bootstrap_server_may_stand_before_the_subcommand(ottla, pair):
    servers = pair[0].bootstrap
    printed = [ottla(*words).out for words in (("-b", servers, "cluster", "id"), ("cluster", "-b", servers, "id"))]
    assert printed[0] == printed[1]
