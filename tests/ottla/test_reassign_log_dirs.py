"""`ottla reassign` with log directories in its file: two brokers with two of them each."""

import contextlib
import itertools
import json

import pytest
from confluent_kafka import Producer

from support.broker import BrokerProcess
from support.deadlines import DEADLINE_S
from support.every_broker import until_every_broker
from support.json_fields import not_printed, printed_fields
from support.polling import until_blocking
from support.zookeeper import new_chroot, shared_zookeeper

numbers = itertools.count(1)
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """Brokers 1 and 2."""
    overrides = {
        "zookeeper.connect": f"{shared_zookeeper().connect}{new_chroot()}",
        "auto.leader.rebalance.enable": "false",
    }
    folder = tmp_path_factory.mktemp("brokers")
    with contextlib.ExitStack() as stack:
        processes = {}
        for broker_id in (1, 2):
            dirs = ",".join(str(folder / f"{broker_id}{name}") for name in "ab")
            settings = overrides | {"broker.id": str(broker_id), "log.dirs": dirs}
            processes[broker_id] = BrokerProcess(folder / f"broker-{broker_id}", settings).launch()
            stack.enter_context(processes[broker_id])
        for process in processes.values():
            process.wait_ready()
        yield processes


@pytest.fixture
def folder(brokers):
    return brokers[1].log_dir.parent


@pytest.fixture
def on(ottla, brokers, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", brokers[1].bootstrap)
    return ottla


@pytest.fixture
def topic(on, brokers):
    """A topic of some megabytes with one replica, on broker 1."""
    name = f"moved{next(numbers)}"
    servers = [one.bootstrap for one in brokers.values()]
    until_every_broker(servers, lambda known, _: known == set(brokers), "both are known")
    on("topics", "create", name, "--replica-assignment", "1")
    until_every_broker(servers, lambda _, topics: name in topics, "both know the topic")
    producer = Producer({"bootstrap.servers": brokers[1].bootstrap, "batch.size": 16384})
    for _ in range(300):
        producer.produce(name, bytes(10_000), partition=0)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    return name


def where(folder, topic):
    """Names of the log directories that hold a replica, or a copy that is on its way."""
    return sorted(
        path.parent.name + ("+" if path.name.endswith("-future") else "")
        for path in folder.glob(f"*/{topic}-0*")
        if not path.name.endswith("-delete")
    )


def other_dir(folder, topic):
    (name,) = where(folder, topic)
    return folder / (name[0] + {"a": "b", "b": "a"}[name[1]])


def write(path, topic, **log_dirs):
    """A plan; log_dirs by `_<broker>`."""
    ids = [int(name[1:]) for name in log_dirs]
    entry = {"topic": topic, "partition": 0, "replicas": ids, "log_dirs": [str(one) for one in log_dirs.values()]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return path


def config(on, name, broker):
    return {one["name"]: one["value"] for one in on("configs", "describe", "--broker", broker, "--json").json}.get(name)


def test_a_replica_moves_to_another_log_directory_and_back(on, folder, topic, tmp_path):
    (source,), target = where(folder, topic), other_dir(folder, topic)
    plan, before = write(tmp_path / "plan.json", topic, _1=target), tmp_path / "before.json"
    assert on("reassign", "start", plan, "--save-current", before).err == "moving 1 partition\n"
    done = on("reassign", "status", plan, "--wait").out.splitlines()
    assert done[1].split() == [f"{topic}-0", "done", "1", "1"]
    assert done[3].split() == [f"{topic}-0", "1", "done", str(target), str(target)]
    assert where(folder, topic) == [target.name]
    assert json.loads(before.read_text())["partitions"][0]["log_dirs"] == [str(folder / source)]
    on("reassign", "start", before)
    status = on("reassign", "status", before, "--wait", "--json")
    assert not_printed("reassign status", printed_fields(status.out)) == []
    assert status.json == [
        {
            "topic": topic,
            "partition": 0,
            "state": "done",
            "replicas": [1],
            "target": [1],
            "log_dirs": [
                {
                    "broker": 1,
                    "state": "done",
                    "log_dir": str(folder / source),
                    "target": str(folder / source),
                }
            ],
        }
    ]
    assert where(folder, topic) == [source]
    elsewhere = on("reassign", "status", plan, code=1)
    assert "elsewhere" in elsewhere.out
    assert "1 of 1 replicas are not in their log directory" in elsewhere.err
    assert len(on("consume", topic, "--from-beginning", "--count", 300, "--format", "%o\n").lines) == 300


def test_a_throttled_move_is_shown_and_can_be_cancelled(on, folder, topic, tmp_path):
    (source,), target = where(folder, topic), other_dir(folder, topic)
    plan = write(tmp_path / "plan.json", topic, _1=target)
    on("reassign", "start", plan, "--replica-alter-log-dirs-throttle", "1k")
    assert config(on, RATE, 1) == "1024"
    assert where(folder, topic) == sorted([source, f"{target.name}+"])
    told = on("reassign", "status", plan, code=1)
    assert told.out.splitlines()[3].split() == [
        f"{topic}-0",
        "1",
        "on",
        "its",
        "way",
        str(folder / source),
        str(target),
    ]
    assert config(on, RATE, 1) == "1024"  # it still moves
    back = write(tmp_path / "back.json", topic, _1=folder / source)
    assert "on its way elsewhere" in on("reassign", "status", back, code=1).out
    assert on("reassign", "cancel", plan).err == "1 move cancelled\n"
    assert where(folder, topic) == [source]
    assert config(on, RATE, 1) is None
    assert on("reassign", "cancel", "--all").err == "0 moves cancelled\n"
    on("reassign", "start", plan, "--replica-alter-log-dirs-throttle", "1k")
    assert on("reassign", "cancel", "--all").err == "1 move cancelled\n"
    assert where(folder, topic) == [source]


def test_a_replica_moves_to_a_log_directory_of_another_broker(on, folder, topic, tmp_path):
    for name in "ab":
        plan = write(tmp_path / "plan.json", topic, _2=folder / f"2{name}")
        on("reassign", "start", plan)
        done = on("reassign", "status", plan, "--wait").out.splitlines()
        assert done[1].split() == [f"{topic}-0", "done", "2", "2"]
        assert where(folder, topic) == [f"2{name}"]
        back = write(tmp_path / "back.json", topic, _1="any")
        on("reassign", "start", back)
        on("reassign", "status", back, "--wait")
        until_blocking(lambda: len(where(folder, topic)) == 1, "it has left the other broker")


def test_refused_moves(on, folder, topic, tmp_path):
    plan = write(tmp_path / "plan.json", topic, _1="/nowhere")
    error = on("reassign", "start", plan, code=1).err
    assert "/nowhere" in error
    assert f"{topic}-0 on broker 1" in error
    missing = write(tmp_path / "missing.json", topic, _2=folder / "2a")
    assert "missing" in on("reassign", "status", missing, code=1).out
