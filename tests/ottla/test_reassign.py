"""`ottla reassign` and `ottla elect-leaders` on three brokers; confluent-kafka sees the same."""

import contextlib
import itertools
import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from support.broker import BrokerProcess
from support.deadlines import DEADLINE_S
from support.every_broker import until_every_broker
from support.polling import until_blocking
from support.zookeeper import new_chroot, shared_zookeeper

numbers = itertools.count(1)
BROKERS = (1, 2, 3)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """Brokers by id; the third has a rack of its own."""
    overrides = {
        "zookeeper.connect": f"{shared_zookeeper().connect}{new_chroot()}",
        "auto.leader.rebalance.enable": "false",
        "controlled.shutdown.retry.backoff.ms": "100",  # the last leader of a partition asks in vain for another
    }
    folder = tmp_path_factory.mktemp("brokers")
    with contextlib.ExitStack() as stack:
        processes = {}
        for broker_id in BROKERS:
            rack = "b" if broker_id == 3 else "a"
            settings = overrides | {"broker.id": str(broker_id), "broker.rack": rack}
            processes[broker_id] = BrokerProcess(folder / f"broker-{broker_id}", settings).launch()
            stack.enter_context(processes[broker_id])
        for process in processes.values():
            process.wait_ready()
        yield processes


@pytest.fixture
def on(ottla, brokers, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", brokers[1].bootstrap)
    servers = [one.bootstrap for one in brokers.values()]
    until_every_broker(servers, lambda known, _: known == set(brokers), "all brokers are known")
    return ottla


@pytest.fixture
def topic(on, brokers):
    return create(on, brokers, "1:2,2:1")


def create(on, brokers, assignment):
    """Create a topic, and wait until all brokers know it."""
    name = f"moved{next(numbers)}"
    on("topics", "create", name, "--replica-assignment", assignment)
    servers = [one.bootstrap for one in brokers.values()]
    until_every_broker(servers, lambda _, topics: name in topics, "all know the topic")
    return name


def replicas(brokers, topic):
    """Leader, replicas and in-sync replicas by partition, as librdkafka sees them."""
    found = (
        AdminClient({"bootstrap.servers": brokers[1].bootstrap}).list_topics(topic, timeout=DEADLINE_S).topics[topic]
    )
    return {number: (one.leader, one.replicas, sorted(one.isrs)) for number, one in found.partitions.items()}


def fill(brokers, topic, count, size=100):
    producer = Producer({"bootstrap.servers": brokers[1].bootstrap, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, bytes(size), partition=number % 2)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0


def write(path, topic, *assignment):
    partitions = [{"topic": topic, "partition": number, "replicas": list(ids)} for number, ids in enumerate(assignment)]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


def config(on, name, *where):
    return {one["name"]: one["value"] for one in on("configs", "describe", *where, "--json").json}.get(name)


# -- moves -------------------------------------------------------------------------------------------------------------


def test_partitions_are_moved_and_moved_back(on, brokers, topic, tmp_path):
    fill(brokers, topic, 20)
    plan, before = write(tmp_path / "plan.json", topic, [3, 2], [2, 3]), tmp_path / "before.json"
    assert on("reassign", "start", plan, "--save-current", before).err == "moving 2 partitions\n"
    done = on("reassign", "status", plan, "--wait")
    assert done.out.splitlines()[1].split() == [f"{topic}-0", "done", "3,2", "3,2"]
    until_blocking(lambda: replicas(brokers, topic) == {0: (3, [3, 2], [2, 3]), 1: (2, [2, 3], [2, 3])}, "moved")
    on("reassign", "start", before)
    on("reassign", "status", before, "--wait")
    until_blocking(lambda: [one[1] for one in replicas(brokers, topic).values()] == [[1, 2], [2, 1]], "back")
    shown = on("consume", topic, "--from-beginning", "--count", 20, "--json")
    assert len(shown.lines) == 20


def test_a_move_with_a_throttle_is_listed_cancelled_and_cleaned_up(on, brokers, topic, tmp_path):
    fill(brokers, topic, 800, size=10_000)  # several fetches, of which the second has to wait
    plan = write(tmp_path / "plan.json", topic, [3, 2], [2, 1])
    on("reassign", "start", plan, "--throttle", "1k")
    (move,) = on("reassign", "list", "--json").json
    assert move == {"topic": topic, "partition": 0, "replicas": [3, 2, 1], "adding": [3], "removing": [1]}
    assert on("reassign", "list").out.splitlines()[1].split() == [f"{topic}-0", "3,2,1", "3", "1"]
    assert config(on, "leader.replication.throttled.replicas", "--topic", topic) == "0:1,0:2"
    assert config(on, "follower.replication.throttled.replicas", "--topic", topic) == "0:3"
    for broker in BROKERS:
        assert config(on, "leader.replication.throttled.rate", "--broker", broker) == "1024"
    other = write(tmp_path / "other.json", topic, [1, 2], [1, 2])
    refused = on("reassign", "start", other, code=1)
    assert f"{topic}-0 are being moved" in refused.err
    assert on("reassign", "status", plan, code=1).out.splitlines()[1].split()[:3] == [f"{topic}-0", "on", "its"]
    assert config(on, "leader.replication.throttled.rate", "--broker", 1) == "1024"  # it still moves
    assert on("reassign", "cancel", "--all").err == "1 move cancelled\n"
    until_blocking(lambda: replicas(brokers, topic)[0][1] == [2, 1], "it stays where it was, in the target's order")
    assert on("reassign", "list", "--json").json == []
    for broker in BROKERS:
        assert config(on, "leader.replication.throttled.rate", "--broker", broker) is None
    assert config(on, "leader.replication.throttled.replicas", "--topic", topic) is None
    assert "elsewhere" in on("reassign", "status", plan, code=1).out


def test_status_removes_the_throttle_when_all_moves_are_done(on, brokers, topic, tmp_path):
    plan = write(tmp_path / "plan.json", topic, [3, 1], [3, 1])
    on("reassign", "start", plan, "--throttle", "100m")
    on("reassign", "status", plan, "--wait", "--keep-throttle")
    assert config(on, "follower.replication.throttled.rate", "--broker", 3) == str(100 * 1024 * 1024)
    assert {one["state"] for one in on("reassign", "status", plan, "--json").json} == {"done"}
    assert config(on, "follower.replication.throttled.rate", "--broker", 3) is None


def test_plans(on, topic):
    current = on("reassign", "plan", topic, "--current").json
    assert current == {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]},
            {"topic": topic, "partition": 1, "replicas": [2, 1], "log_dirs": ["any", "any"]},
        ],
    }
    spread = on("reassign", "plan", topic).json["partitions"]
    assert all(3 in one["replicas"] and len(one["replicas"]) == 2 for one in spread), "one replica in each rack"
    assert [one["replicas"] for one in on("reassign", "plan", topic, "--brokers", 2, "-r", 1).json["partitions"]] == [
        [2],
        [2],
    ]
    assert (
        "3 replicas need 3 brokers, and only 2 are available"
        in on("reassign", "plan", topic, "--brokers", "1,2", "-r", 3, code=1).err
    )
    assert "no such live broker" in on("reassign", "plan", topic, "--brokers", "1,9", code=1).err
    assert "must be broker ids" in on("reassign", "plan", topic, "--brokers", "1,x", code=1).err
    assert f"did you mean {topic}" in on("reassign", "plan", topic[:-1], code=1).err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"version":2,"partitions":[]}', "version 2 must be 1"),
        ('{"partitions":[]}', 'no list of "partitions"'),
        ('{"partitions":[1]}', "1 is not an object"),
        ('{"partitions":[{"topic":"t","partition":0,"replica":[1]}]}', "'replica' must be one of"),
        ('{"partitions":[{"partition":0,"replicas":[1]}]}', "topic null is not a name"),
        ('{"partitions":[{"topic":"t","partition":-1,"replicas":[1]}]}', "partition -1 must be a number"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "[1, 1] must be a list of different"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "replicas [] must be a list"),
        ('{"partitions":[{"topic":"t","partition":0}]}', "replicas null must be a list"),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/data"]}]}',
            "unknown topic t",
        ),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["data"]}]}',
            "log_dirs [\"data\"] must be 'any' or an absolute path for each replica",
        ),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any","any"]}]}',
            'log_dirs ["any", "any"] must be \'any\' or',
        ),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":"any"}]}', 'log_dirs "any" must be'),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[1]}]}',
            "partition 1: t-0 is named twice",
        ),
        ('{"partitions":[{"topic":"nowhere","partition":0,"replicas":[1]}]}', "unknown topic nowhere"),
    ],
)
def test_files_that_are_refused(on, tmp_path, content, message):
    path = tmp_path / "plan.json"
    path.write_text(content)
    error = on("reassign", "start", path, code=1).err
    assert message in error
    assert str(path) in error


def test_refused_moves(on, topic, tmp_path):
    path = write(tmp_path / "plan.json", topic, [1, 7])
    assert f"{topic}-0: the cluster has no live broker 7" in on("reassign", "start", path, code=1).err
    assert on("reassign", "start", tmp_path / "none.json", code=1).err.endswith("No such file or directory\n")
    assert "either a file or --all" in on("reassign", "cancel", code=1).err
    assert on("reassign", "cancel", "-", stdin=path.read_bytes()).err == "0 moves cancelled\n"


# -- elections ---------------------------------------------------------------------------------------------------------


def test_preferred_leaders_get_their_partitions_back(on, brokers, topic, tmp_path):
    brokers[2].stop()
    until_blocking(lambda: replicas(brokers, topic)[1][0] == 1, "another leads")
    brokers[2].start()
    until_blocking(lambda: replicas(brokers, topic)[1][2] == [1, 2], "it is in sync again")
    file = tmp_path / "partitions.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0}]}))
    assert on("elect-leaders", "--file", file, "--json").json == [
        {"topic": topic, "partition": 0, "outcome": "not_needed", "error": None}
    ]
    shown = on("elect-leaders", "--topic", topic).out.splitlines()
    assert [line.split() for line in shown[1:]] == [
        [f"{topic}-0", "not", "needed"],
        [f"{topic}-1", "elected"],
    ]
    until_blocking(lambda: replicas(brokers, topic)[1][0] == 2, "it leads again")
    on("elect-leaders", "--all")
    assert on("elect-leaders", "--all", "--json").json == []  # none is needed


def test_an_unclean_election(on, brokers, tmp_path):
    """Broker 2 is out of sync, and the only broker in sync has stopped."""
    topic = create(on, brokers, "3:2")
    brokers[2].stop()
    until_blocking(lambda: replicas(brokers, topic)[0][2] == [3], "one is in sync")
    brokers[3].stop()
    brokers[2].start()
    until_blocking(lambda: replicas(brokers, topic)[0][0] == -1, "nobody leads")
    refused = on("elect-leaders", "--topic", f"{topic}:0", code=1)
    assert "the election failed" in refused.err
    assert on("elect-leaders", "--topic", f"{topic}:0", "--unclean", "--json").json == [
        {"topic": topic, "partition": 0, "outcome": "elected", "error": None}
    ]
    until_blocking(lambda: replicas(brokers, topic)[0][0] == 2, "it leads")
    brokers[3].start()


def test_refused_elections(on, topic):
    assert "one of --topic, --file and --all" in on("elect-leaders", code=1).err
    assert "one of --topic, --file and --all" in on("elect-leaders", "--all", "--topic", topic, code=1).err
    assert f"topic {topic} has partitions 0 to 1, not 9" in on("elect-leaders", "--topic", f"{topic}:9", code=1).err
