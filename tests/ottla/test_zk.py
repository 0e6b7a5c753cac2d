"""`ottla zk` on a real ZooKeeper, and on the embedded registry of a stopped broker."""

import json
import os
import signal
import subprocess
import sys

import pytest

from registry.znodes.topics import TopicZnode
from registry.znodes.tree import znode_class
from support.broker import ROOT, broker_process
from support.deadlines import DEADLINE_S
from support.zookeeper import new_chroot, shared_zookeeper

CONFIG = '{"version":1,"config":{"retention.ms":"1000"}}'


@pytest.fixture
def zk(ottla, monkeypatch):
    """Runs `ottla zk …` in a chroot of its own, which is there."""
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    monkeypatch.setenv("OTTLA_ZOOKEEPER", connect)
    ottla("zk", "create", "--write", "--parents", "/config/topics")
    return lambda *words, code=0: ottla("zk", *words, code=code)


def test_what_is_written_is_shown(zk):
    assert zk("create", "--write", "/config/topics/orders", CONFIG).out == "/config/topics/orders created\n"
    assert zk("ls").out == "config\n"
    assert zk("ls", "/config/topics", "--json").json == ["orders"]
    assert json.loads(zk("get", "/config/topics/orders").out) == json.loads(CONFIG)
    shown = zk("get", "--json", "/config/topics/orders").json
    assert (shown["kind"], shown["value"], shown["fault"]) == ("TopicConfig", json.loads(CONFIG), None)
    assert shown["stat"]["data_length"] == len(CONFIG)
    assert shown["stat"]["ephemeral_owner"] is None
    stat = zk("stat", "--json", "/config/topics/orders").json
    assert stat["acl"] == ["world:anyone:31"]
    assert "TopicConfig" in zk("stat", "/config/topics/orders").out
    assert zk("get", "/config").out == ""


def test_the_tree(zk):
    zk("create", "--write", "/config/topics/orders", CONFIG)
    zk("create", "--write", "/controller_epoch", "3")
    assert zk("tree").out.splitlines() == [
        "/",
        "  config",
        "    topics",
        '      orders  {"version": 1, "config": {"retention.ms": "1000"}}',
        "  controller_epoch  3",
    ]
    assert zk("tree", "/config", "--depth", "1").out.splitlines() == ["/config", "  topics"]
    assert [node["path"] for node in zk("tree", "/config", "--json").json] == [
        "/config", "/config/topics", "/config/topics/orders",
    ]  # fmt: skip


def test_writing_needs_to_be_said(zk):
    for words in (("create", "/x"), ("set", "/config", "x"), ("delete", "/config/topics")):
        assert "--write" in zk(*words, code=1).err
    assert zk("tree").out.splitlines() == ["/", "  config", "    topics"]


def test_content_that_kafka_could_not_read(zk):
    refused = zk("create", "--write", "/config/topics/bad", "{", code=1)
    assert "/config/topics/bad: must be JSON" in refused.err
    zk("create", "--write", "--raw", "/config/topics/bad", "{")
    assert "must be JSON" in zk("tree").out
    assert zk("get", "--json", "/config/topics/bad").json["fault"].startswith("must be JSON")
    assert zk("get", "/config/topics/bad").err.startswith("not readable as TopicConfig")
    zk("set", "--write", "/config/topics/bad", CONFIG)
    assert "--raw" in zk("set", "--write", "/config/topics/bad", "[]", code=1).err


def test_versions_sequences_and_deletion(zk):
    zk("create", "--write", "/other", "0")
    assert zk("set", "--write", "/other", "1", "--version", "0").out == "/other set, version 1\n"
    assert "version" in zk("set", "--write", "/other", "2", "--version", "0", code=1).err
    assert zk("create", "--write", "--sequence", "/other/n-").out == "/other/n-0000000000 created\n"
    assert "children" in zk("delete", "--write", "/other", code=1).err
    assert zk("delete", "--write", "--recursive", "/other").out == "/other deleted, and 1 below it\n"
    assert zk("delete", "--write", "/config/topics").out == "/config/topics deleted\n"
    assert "cannot delete /" in zk("delete", "--write", "-r", "/", code=1).err


def test_what_is_not_there(zk, ottla):
    assert "no znode /config/topic (did you mean topics?)" in zk("get", "/config/topic", code=1).err
    assert "no znode /confg (did you mean config?)" in zk("ls", "/confg/topics", code=1).err
    assert "a path must start with a slash" in zk("get", "config", code=1).err
    chroot = f"{shared_zookeeper().connect}{new_chroot()}"
    assert "the chroot does not exist" in ottla("zk", "ls", "-z", chroot, code=1).err  # and looking does not make it
    assert "the chroot does not exist" in ottla("zk", "tree", "-z", chroot, code=1).err


def test_no_zookeeper(ottla, nowhere):
    assert f"{nowhere}: Connection refused" in ottla("zk", "ls", "-z", nowhere, code=1).err


def test_watching(zk, ottla):
    command = [sys.executable, "-m", "ottla", "zk", "watch", "/watched"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as watching:
        lines = [watching.stdout.readline()]
        for words in (("create", "/watched", "1"), ("set", "/watched", "2"), ("create", "/watched/child")):
            zk(words[0], "--write", *words[1:])
            lines.append(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        assert watching.wait(DEADLINE_S) == 130
    assert lines == [
        "/watched does not exist\n",
        "/watched version 0  1\n",
        "/watched version 1  2\n",
        "/watched version 1  2  children: child\n",
    ]
    shown = zk("watch", "/watched", "--count", "1", "--json").json
    assert (shown["value"], shown["children"]) == ("2", ["child"])


def test_a_clusters_tree(zk, tmp_path):
    """What a broker writes is decoded without a fault."""
    with broker_process(tmp_path / "data", zookeeper_connect=os.environ["OTTLA_ZOOKEEPER"], broker_id="4") as broker:
        nodes = {node["path"]: node for node in zk("tree", "--json").json}
        assert nodes["/brokers/ids/4"]["value"]["port"] == broker.port
        assert nodes["/brokers/ids/4"]["stat"]["ephemeral_owner"].startswith("0x")
        assert nodes["/controller"]["kind"] == "Controller"
        assert not [node for node in nodes.values() if node["fault"]]
        assert all(
            znode_class(path) for path in nodes if path not in ("/", "/admin", "/brokers", "/cluster", "/config")
        )


def test_the_embedded_registry(ottla, tmp_path):
    with broker_process(tmp_path / "data", broker_id="4") as broker:
        ottla("topics", "create", "orders", "-b", broker.bootstrap)
        assert "another process has the registry open" in ottla("zk", "ls", "--log-dir", broker.log_dir, code=1).err
        broker.stop()
    shown = ottla("zk", "get", "/brokers/topics/orders", "--json", "--log-dir", tmp_path / "data").json
    topic = TopicZnode.decode(json.dumps(shown["value"]).encode(), "/brokers/topics/orders")
    assert topic.partitions.keys() == {0}
    assert ottla("zk", "ls", "/brokers/ids", "--log-dir", tmp_path / "data").out == ""
    (tmp_path / "none").mkdir()
    assert "has no registry.sqlite" in ottla("zk", "ls", "--log-dir", tmp_path / "none", code=1).err


# ---- Kafka 0.7's layout


def test_the_tree_of_0_7(zk):
    def old(*words, code=0):
        return zk("--layout", "0.7", *words, code=code)

    broker = {"creator": "mota29-1394675777000", "host": "mota29", "port": 9092}
    old("create", "--write", "--parents", "/brokers/ids/29", json.dumps(broker))
    old("create", "--write", "--parents", "/brokers/topics/topic1/29", "5")
    group = "/consumers/group1"
    old("create", "--write", "--parents", f"{group}/ids/group1_host1-1394675777000-a8e438be", '{ "topic1": 1 }')
    pattern = {"pattern": "white_list", "subscription": {"top.*": 2}}
    old("create", "--write", f"{group}/ids/two", json.dumps(pattern))
    old("create", "--write", "--parents", f"{group}/offsets/topic1/29-4", "1024")
    old("create", "--write", "--parents", f"{group}/owners/topic1/29-4", "group1_host1-1394675777000-a8e438be-0")
    assert old("ls", "/brokers/ids").out == "29\n"
    assert json.loads(old("get", "/brokers/ids/29").out) == broker
    assert old("get", "--json", f"{group}/ids/two").json["value"] == pattern
    assert old("get", "--json", f"{group}/offsets/topic1/29-4").json["kind"] == "LegacyOffset"
    assert old("watch", "--count", "1", "/brokers/topics/topic1/29").out == "/brokers/topics/topic1/29 version 0  5\n"
    # What is really there is 0.7's text.
    assert zk("get", "/brokers/ids/29").out == "mota29-1394675777000:mota29:9092\n"
    assert zk("get", f"{group}/ids/two").out == "*2*top.*\n"
    assert "not readable as Broker" in zk("tree").out
    assert "not readable" not in old("tree", "/brokers").out + old("tree", "/consumers").out
    old("set", "--write", f"{group}/offsets/topic1/29-4", "2048")
    assert old("get", f"{group}/offsets/topic1/29-4").out == "2048\n"
    old("delete", "--write", "-r", group)
    assert old("ls", "/consumers").out == ""


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("/brokers/ids/29", "mota29:9092", "host-millis:host:port"),
        ("/brokers/ids/29", '{"creator":"a","host":"b"}', "port is missing"),
        ("/brokers/topics/t/29", "five", "decimal integer"),
        ("/consumers/g/offsets/t/5", "1", "the number of its partition"),
        ("/consumers/g/ids/c", '{"pattern":"x","subscription":{"t":1}}', "pattern must be one of"),
        ("/consumers/g/owners/t/29-5", "nobody", "a consumer's thread"),
    ],
)
def test_what_0_7_could_not_read(zk, path, value, said):
    refused = zk("--layout", "0.7", "create", "--write", "--parents", path, value, code=1).err
    assert refused.startswith("ottla: Kafka 0.7 cannot read this content: ")
    assert said in refused
    zk("--layout", "0.7", "create", "--write", "--parents", "--raw", path, value)


def test_a_layout_that_is_none(zk):
    assert "must be one of today, 0.7" in zk("--layout", "0.6", "ls", code=1).err
