"""Helpers that move replicas between the log directories of a broker and observe the moves."""

from __future__ import annotations

from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.log_dirs import iter_whole
from support.polling import until
from support.wire import append, batch, create_topic
from support.wire import fetch as fetch_request

NONE, UNKNOWN, NOT_AVAILABLE, INVALID_TOPIC, STORAGE_ERROR, NOT_FOUND = 0, 3, 9, 17, 56, 57
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


async def alter(client, path, topic="t", partition=0):
    """Request a move. Return the error code."""
    asked = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    answer = await client.call(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[asked])]), 2)
    (result,) = answer.results
    assert result.topic_name == topic
    assert [one.partition_index for one in result.partitions] == [partition]
    return result.partitions[0].error_code


def replicas_of(disks, topic="t", partition=0):
    """Names of the directories in which a partition is, future or not, without those of what is about to go."""
    found = [path for root in disks.paths for path in root.glob(f"{topic}-{partition}*")]
    return sorted(str(path.relative_to(disks.paths[0].parent)) for path in found if not path.name.endswith("-delete"))


async def moved(disks, path, topic="t", partition=0):
    """Wait until a replica is in a directory and no other file of the move is left."""
    moves = disks.broker.services.replicas.moves
    await until(
        lambda: disks.directory_of(topic, partition) == path and not moves.moves, f"{topic}-{partition} is moved"
    )
    assert replicas_of(disks, topic, partition) == [f"{path.name}/{topic}-{partition}"]
    assert not (path / f"{topic}-{partition}" / ".ottla-moved-from").exists()


async def throttle(disks, rate):
    """Limit moves to a rate in bytes per second; None: no limit."""
    change = AlterableConfig(
        name=THROTTLE, config_operation=1 if rate is None else 0, value=None if rate is None else str(rate)
    )
    resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=[change])
    answer = await disks.client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert answer.responses[0].error_code == NONE, answer
    config = disks.broker.config
    await until(lambda: config.values.get(THROTTLE) == rate, "the rate is known")


async def begun(disks, path, topic="t", partition=0):
    """Begin a move that the throttle stops after its first batch. Return the future log."""
    await throttle(disks, 1)
    assert await alter(disks.client, path, topic, partition) == NONE
    future = disks.logs.futures.logs[topic, partition]
    await until(lambda: future.log_end_offset > future.segments[0].base_offset, "the first batch is copied")
    assert future.directory.parent == path
    return future


async def filled(disks, count=20, topic="t", **configs):
    """A topic with `count` batches; where it is, and another directory."""
    await create_topic(disks.client, topic, **configs)
    for number in range(count):
        assert (await append(disks.client, topic, batch(b"%d" % number))).error_code == NONE
    source = disks.directory_of(topic)
    return source, other_than(disks, source)


def numbers(*bounds):
    return [(number, b"%d" % number) for number in range(*bounds)]


async def described(disks, topic="t"):
    """(directory, size, lag, whether it is a future one) of every replica of a topic, as DescribeLogDirs has it."""
    answer = await disks.client.call(DescribeLogDirsRequest(topics=None), 4)
    return {
        (result.log_dir, one.is_future_key): (one.partition_size, one.offset_lag)
        for result in answer.results
        for of in result.topics
        for one in of.partitions
        if of.name == topic
    }


async def records(client, topic="t", partition=0, offset=0):
    """Offset and value of every record, as a consumer reads."""
    found = []
    while True:
        answer = await client.call(fetch_request(topic, offset, partition), 12)
        one = answer.responses[0].partitions[0]
        assert one.error_code == NONE, one
        data = [each for each in iter_whole(bytes(one.records or b"")) if each.last_offset >= offset]
        if not data:
            return found
        found += [(record.offset, record.value) for each in data for record in each.records()]
        offset = data[-1].last_offset + 1


def other_than(disks, path):
    return next(one for one in disks.paths if one != path)


def contents(directory):
    """The bytes of the records of a log's directory."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
