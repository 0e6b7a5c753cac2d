"""The admin client's part about log directories, against our broker with two of them."""

import asyncio

import pytest

from client.admin.admin import Admin
from client.admin.types import ConfigChange, Replica, ResourceType
from client.errors import ConnectionLostError, LogDirNotFoundError, UnknownTopicOrPartitionError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.broker import broker_process
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.polling import until

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dirs")
    with broker_process(folder / "broker", log_dirs=f"{folder}/a,{folder}/b") as process:
        yield process


@pytest.fixture
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=DEADLINE_MS) as opened:
        yield opened


async def places(admin, topic):
    """(directory's name, whether it is a copy) of the replicas of a topic, by partition."""
    found = {}
    for log_dir in await admin.describe_log_dirs([0]):
        for one in log_dir.replicas:
            if one.topic == topic:
                found.setdefault(one.partition, {})[one.is_future] = (log_dir.path, one.size_bytes, one.offset_lag)
    return found


async def until_moved(admin, topic, partition, path):
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = (await places(admin, topic))[partition]
            if list(found) == [False] and found[False][0] == path:
                return
            await asyncio.sleep(0.01)


async def test_moves(admin, broker):
    await admin.create_topic("t", 3)
    async with Producer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer:
        for partition in range(3):
            for _ in range(5):
                await producer.send("t", bytes(1000), partition=partition)
    directories = [one.path for one in await admin.describe_log_dirs([0])]
    before = await places(admin, "t")
    target = {number: next(path for path in directories if path != before[number][False][0]) for number in range(3)}
    await admin.incremental_alter_configs(ResourceType.BROKER, "0", [ConfigChange(RATE, "1")])
    moves = {Replica("t", number, 0): target[number] for number in range(3)}
    assert await admin.alter_replica_log_dirs(moves) == dict.fromkeys(moves)
    for number, found in (await places(admin, "t")).items():
        assert found[True][0] == target[number]
        assert found[False] == before[number][False]
        assert 0 <= found[True][2] <= 5
        assert found[True][1] < found[False][1] or found[True][2] == 0
    back = {Replica("t", 0, 0): before[0][False][0]}
    assert await admin.alter_replica_log_dirs(back) == dict.fromkeys(back)
    assert list((await places(admin, "t"))[0]) == [False]
    await admin.incremental_alter_configs(ResourceType.BROKER, "0", [ConfigChange(RATE, str(10**9))])
    for number in (1, 2):
        await until_moved(admin, "t", number, target[number])
    assert (await admin.list_offsets({TopicPartition("t", 1): -1}))[TopicPartition("t", 1)].offset == 5


async def test_errors_are_reported_for_each_replica(admin, broker):
    await admin.create_topic("u")
    path = (await admin.describe_log_dirs())[0].path
    wrong, unknown, good, gone = (Replica("u", 0, 0), Replica("u", 7, 0), Replica("w", 0, 0), Replica("u", 0, 9))
    outcomes = {}

    async def is_broker_0_heard():
        async with Admin(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=1000) as hasty:
            outcomes.update(
                await hasty.alter_replica_log_dirs({wrong: "/nowhere", unknown: path, good: path, gone: path})
            )
        return isinstance(outcomes[wrong], LogDirNotFoundError)

    await until(is_broker_0_heard, "broker 0 answers before the search for broker 9 ends")
    assert list(outcomes) == [wrong, unknown, good, gone]
    assert "u-0 on broker 0" in str(outcomes[wrong])
    assert isinstance(outcomes[unknown], UnknownTopicOrPartitionError)
    assert isinstance(outcomes[gone], ConnectionLostError)
    await admin.create_topic("w")  # it has been said where it shall be
    assert (await places(admin, "w"))[0][False][0] == path
    assert await admin.alter_replica_log_dirs({}) == {}
