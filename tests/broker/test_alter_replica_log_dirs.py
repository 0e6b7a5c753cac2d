"""Replicas are moved between the log directories of a broker (KIP-113), and nobody who uses them notices."""

from __future__ import annotations

import asyncio

import pytest

from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from registry.embedded import EmbeddedStore
from support.broker import until
from support.disks import Disks
from support.log_dirs import iter_whole
from support.wire import append, batch, create_topic, wire_client
from support.wire import fetch as fetch_request

NONE, UNKNOWN, NOT_AVAILABLE, INVALID_TOPIC, STORAGE_ERROR, NOT_FOUND = 0, 3, 9, 17, 56, 57
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
async def disks(tmp_path):
    store = await EmbeddedStore.open()
    yield Disks(tmp_path, store)
    await store.close()


async def alter(client, path, topic="t", partition=0):
    """Ask for a move; the error code."""
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
    """Wait until a replica is in a directory, and all is tidied up."""
    moves = disks.broker.services.replicas.moves
    await until(
        lambda: disks.directory_of(topic, partition) == path and not moves.moves, f"{topic}-{partition} is moved"
    )
    assert replicas_of(disks, topic, partition) == [f"{path.name}/{topic}-{partition}"]
    assert not (path / f"{topic}-{partition}" / ".ottla-moved-from").exists()


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


async def test_a_replica_is_moved_under_load(disks):
    async with disks.running(), wire_client(disks.broker.bootstrap_servers) as producer:
        await create_topic(disks.client, "t", segment_bytes="200000")
        acknowledged = []
        going = True

        async def load():
            while going:
                value = b"%06d" % len(acknowledged) * 150
                answer = await append(producer, "t", batch(value))
                assert answer.error_code == NONE
                acknowledged.append((answer.base_offset, value))

        loading = asyncio.create_task(load())
        await until(lambda: len(acknowledged) > 500, "there is something to move")
        source = disks.directory_of("t")
        target = other_than(disks, source)
        assert await alter(disks.client, target) == NONE
        await moved(disks, target)
        count = len(acknowledged)
        await until(lambda: len(acknowledged) > count + 100, "the load goes on")
        going = False
        await loading
        assert await records(disks.client) == acknowledged
        (old,) = source.glob("t-0.*-delete")
        before = contents(old)
        assert len(before) > 400_000
        assert contents(target / "t-0").startswith(before)
        names = sorted(path.name for path in old.glob("*.log"))
        assert sorted(path.name for path in (target / "t-0").glob("*.log"))[: len(names)] == names
