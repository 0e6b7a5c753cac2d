"""Several log directories: one that fails goes offline alone, and what clients, the controller and people see of it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from broker.broker import Broker
from broker.log_dir_failures import LogDirFailures, RegistryDirectoryFailedError
from broker.settings.config import BrokerConfig
from client.wire.backoff import Backoff
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.record_batch import iter_batches
from registry.embedded.store import EmbeddedStore
from storage.directories.log_directory import LogDirectory
from storage.errors import AllLogDirsFailedError
from storage.file_system import FileSystem
from support.broker import ROOT, broker_process, settings, until_leader
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.disks import STORAGE_ERROR, three
from support.faulty_disk import FaultyFileSystem
from support.polling import until
from support.wire import append, batch, create_topic, until_led, wire_client
from support.wire import fetch as fetch_request

NOT_LEADER = 6
LEADER_NOT_AVAILABLE = 5
CLEAN = ".kafka_cleanshutdown"


async def ask(client, request, version):
    return await client.call(request, version)


async def fetch(client, topic, partition, **fields):
    """The answer for one partition."""
    answer = await client.call(fetch_request(topic, 0, partition, **fields), 12)
    return answer.responses[0].partitions[0]


async def values(client, topic, partition):
    answer = await fetch(client, topic, partition)
    assert answer.error_code == 0
    return [record.value for one in iter_batches(bytes(answer.records)) for record in one.records()]


async def describe(client, topic):
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return (await client.call(request, 9)).topics[0]


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOENT])
async def test_only_the_failed_directory_goes_offline(disks, number):
    async with disks.running():
        where = await three(disks)
        lost, kept = where[disks.paths[1]], where[disks.paths[2]]
        await disks.fail(disks.paths[1], number)
        assert (await append(disks.client, "t", batch(b"more"), lost)).error_code in (STORAGE_ERROR, NOT_LEADER)
        assert (await append(disks.client, "t", batch(b"more"), kept)).error_code == 0
        assert (await fetch(disks.client, "t", kept)).error_code == 0
        await until(lambda: disks.state("t", lost).leader == -1, "the controller has taken it away")
        assert (disks.state("t", lost).leader_epoch, disks.state("t", lost).isr) == (1, [0])
        assert disks.state("t", kept).leader_epoch == 0
        await until(
            lambda: disks.broker.metadata.snapshot.partition("t", lost).offline_replicas == [0], "everybody is told"
        )
        topic = await describe(disks.client, "t")
        told = {one.partition_index: (one.error_code, one.leader_id, one.offline_replicas) for one in topic.partitions}
        assert told[lost] == (LEADER_NOT_AVAILABLE, -1, [0])
        assert told[kept] == (0, 0, [])
        notifications = [path for path in disks.store.tree.nodes if path.startswith("/log_dir_event_notification/")]
        assert notifications == []


async def test_every_request_gets_kafka_storage_error(disks, monkeypatch):
    async with disks.running():
        where = await three(disks)
        lost = where[disks.paths[1]]
        # What the broker itself says, before the controller takes the partition away from it.
        monkeypatch.setattr(disks.broker.services.logs, "on_offline", _only_offline(disks))
        await disks.fail(disks.paths[1])
        client = disks.client
        assert (await append(client, "t", batch(b"x"), lost)).error_code == STORAGE_ERROR
        assert (await append(client, "t", batch(b"x"), lost, acks=1)).error_code == STORAGE_ERROR
        assert (await fetch(client, "t", lost)).error_code == STORAGE_ERROR
        asked = ListOffsetsPartition(partition_index=lost, timestamp=-1)
        listed = await ask(
            client, ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])]), 7
        )
        assert listed.topics[0].partitions[0].error_code == STORAGE_ERROR
        epoch = OffsetForLeaderPartition(partition=lost, current_leader_epoch=-1, leader_epoch=0)
        ends = await ask(
            client,
            OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[epoch])]),
            4,
        )
        assert ends.topics[0].partitions[0].error_code == STORAGE_ERROR
        before = DeleteRecordsPartition(partition_index=lost, offset=0)
        deleted = await ask(
            client,
            DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[before])], timeout_ms=DEADLINE_MS),
            2,
        )
        assert deleted.topics[0].partitions[0].error_code == STORAGE_ERROR


def _only_offline(disks):
    return lambda directory, keys: disks.broker.services.replicas.controller_requests.log_directory_failed(keys)


async def test_waiting_requests_get_the_storage_error(disks):
    async with disks.running():
        where = await three(disks)
        lost = where[disks.paths[2]]
        disks.logs.on_offline = _only_offline(disks)  # the controller has nothing to do with it
        async with wire_client(disks.broker.bootstrap_servers) as other:
            waiting = asyncio.create_task(fetch(other, "t", lost, fetch_offset=1, max_wait_ms=20_000, min_bytes=1))
            await until(lambda: disks.broker.services.replicas.fetches.size, "it waits")
            await disks.fail(disks.paths[2])
            assert (await asyncio.wait_for(waiting, DEADLINE_S)).error_code == STORAGE_ERROR


async def test_describe_log_dirs(disks):
    async with disks.running():
        await three(disks)
        await disks.fail(disks.paths[1])
        answer = await ask(disks.client, DescribeLogDirsRequest(topics=None), 4)
        results = {result.log_dir: result for result in answer.results}
        a, b, c = (results[str(path)] for path in disks.paths)
        assert (b.error_code, b.topics, b.total_bytes, b.usable_bytes) == (STORAGE_ERROR, [], -1, -1)
        usage = shutil.disk_usage(disks.paths[0])
        for one in (a, c):
            assert (one.error_code, one.total_bytes) == (0, usage.total)
            assert 0 < one.usable_bytes <= usage.total
            assert [len(topic.partitions) for topic in one.topics] == [1]


async def test_descriptors_are_released(disks):
    async with disks.running():
        await three(disks)

        def open_in(path):
            links = []
            for entry in os.scandir("/proc/self/fd"):
                with contextlib.suppress(FileNotFoundError):
                    links.append(str(Path(entry.path).readlink()))
            return [link for link in links if link.startswith(f"{path}/")]

        assert len(open_in(disks.paths[1])) >= 2
        await disks.fail(disks.paths[1])
        assert open_in(disks.paths[1]) == []


async def test_new_partitions_are_created_in_other_directories(disks):
    async with disks.running():
        await three(disks)
        await disks.fail(disks.paths[0])
        await create_topic(disks.client, "u", 4)
        for partition in range(4):
            assert (await append(disks.client, "u", batch(b"v"), partition)).error_code == 0
        places = sorted(str(disks.directory_of("u", partition)) for partition in range(4))
        assert places == sorted([str(disks.paths[1])] * 2 + [str(disks.paths[2])] * 2)


async def test_a_restart_with_a_repaired_directory_serves_all_partitions(disks):
    async with disks.running():
        where = await three(disks)
        await disks.fail(disks.paths[1])
        await append(disks.client, "t", batch(b"w"), where[disks.paths[2]])
    assert not (disks.paths[1] / CLEAN).exists()
    assert (disks.paths[2] / CLEAN).exists()
    disks.fs.broken.clear()
    async with disks.running():
        await until(lambda: all(disks.state("t", p).leader == 0 for p in range(3)), "all are led again")
        for partition in range(3):
            await until_leader(disks.broker, "t", partition)
            expected = [b"v%d" % partition] + [b"w"] * (partition == where[disks.paths[2]])
            assert await values(disks.client, "t", partition) == expected


async def test_a_start_with_an_unusable_directory(disks):
    async with disks.running():
        where = await three(disks)
    lost = where[disks.paths[1]]
    disks.fs.broken[disks.paths[1]] = errno.EIO
    async with disks.running():
        await until(lambda: disks.state("t", lost).leader == -1, "its partition has no leader")
        assert not list(disks.paths[0].glob(f"t-{lost}"))  # it is not created in another directory
        assert not list(disks.paths[2].glob(f"t-{lost}"))
        for path in (disks.paths[0], disks.paths[2]):
            assert (await append(disks.client, "t", batch(b"w"), where[path])).error_code == 0
        await create_topic(disks.client, "u")  # new ones are
        assert (await append(disks.client, "u", batch(b"w"))).error_code == 0
    disks.fs.broken.clear()
    async with disks.running():
        await until(lambda: disks.state("t", lost).leader == 0, "it is back")
        await until_leader(disks.broker, "t", lost)
        assert await values(disks.client, "t", lost) == [b"v%d" % lost]


async def test_a_failed_fsync_fails_the_directory_even_on_a_full_disk(disks):
    disks.overrides["log_flush_interval_messages"] = "1"
    async with disks.running():
        where = await three(disks)
        lost = where[disks.paths[1]]
        disks.fs.fsync_error[disks.paths[1]] = errno.ENOSPC
        assert (await append(disks.client, "t", batch(b"not durable"), lost)).error_code == STORAGE_ERROR
        await until(lambda: not disks.logs.dirs.all[1].is_online, "it is offline")
        assert (await append(disks.client, "t", batch(b"more"), where[disks.paths[0]])).error_code == 0


async def test_a_periodic_checkpoint_detects_the_failure(disks):
    disks.overrides["replica_high_watermark_checkpoint_interval_ms"] = "20"
    async with disks.running():
        await three(disks)
        disks.fs.broken[disks.paths[2]] = errno.EIO
        await until(lambda: not disks.logs.dirs.all[2].is_online, "it is offline")
        assert disks.logs.dirs.all[1].is_online


async def test_a_topic_in_a_failed_directory_is_deleted_after_the_repair(disks):
    async with disks.running():
        await three(disks)
        await disks.fail(disks.paths[1])
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=100)
        await ask(disks.client, request, 3)
        await asyncio.sleep(0)
        assert disks.store.tree.get("/admin/delete_topics/t") is not None
    disks.fs.broken.clear()
    async with disks.running():
        await until(lambda: disks.store.tree.get("/brokers/topics/t") is None, "it is deleted")
        assert not [path for one in disks.paths for path in one.glob("t-?")]


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_the_failure_of_the_last_directory_stops_the_broker(disks):
    async def fail():
        async with disks.running():
            await three(disks)
            for path in disks.paths:
                disks.fs.broken[path] = errno.EIO
            for partition in range(3):
                with contextlib.suppress(Exception):
                    await append(disks.client, "t", batch(b"x"), partition)
            await asyncio.wait_for(asyncio.shield(disks.broker._running), DEADLINE_S)

    with pytest.raises(BaseExceptionGroup) as ended:
        await fail()
    assert ended.group_contains(AllLogDirsFailedError, match=r"all log directories have failed: .*/a.*/b.*/c", depth=1)


async def test_the_failure_of_the_registrys_directory_stops_the_broker(tmp_path):
    fs = FaultyFileSystem()
    config = BrokerConfig.load(None, settings(f"{tmp_path}/a,{tmp_path}/b"))

    async def fail():
        async with Broker(config, fs=fs) as broker:
            async with wire_client(broker.bootstrap_servers) as client:
                await create_topic(client, "t", 2)
                fs.broken[tmp_path / "a"] = errno.EIO
                for partition in range(2):
                    with contextlib.suppress(Exception):
                        await append(client, "t", batch(b"x"), partition)
            await asyncio.wait_for(asyncio.shield(broker._running), DEADLINE_S)

    with pytest.raises(BaseExceptionGroup) as ended:
        await fail()
    assert ended.group_contains(RegistryDirectoryFailedError, match="registry has failed: .*/a")
    assert (tmp_path / "b" / CLEAN).exists()
    assert not (tmp_path / "a" / CLEAN).exists()


async def test_a_failure_is_reported_in_the_next_session(caplog):
    store = await EmbeddedStore.open()
    registry = store.session()
    await registry.start()
    await registry.expire()
    failures = LogDirFailures(7, registry, None, Backoff(1, 5))
    failures.add(LogDirectory(FileSystem(), Path("/gone")))
    telling = asyncio.create_task(failures.run())
    await until(lambda: "cannot notify the controller of a failed log directory yet" in caplog.text, "it has tried")
    await registry.start()
    path = "/log_dir_event_notification"
    await until(lambda: path in store.tree.nodes and store.tree.children(path), "the controller is told")
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    await store.close()


async def test_a_real_directory_that_disappears(tmp_path):
    """A process; the second directory is replaced by a file while it runs, and repaired before the next start."""
    a, b = tmp_path / "a", tmp_path / "b"
    with broker_process(tmp_path / "a", log_dirs=f"{a},{b}", log_segment_bytes="20000") as running:
        async with wire_client(running.bootstrap) as client:
            await create_topic(client, "t", 2)
            lost = 0 if (b / "t-0").exists() else 1
            for partition in range(2):
                assert (await append(client, "t", batch(b"kept"), partition)).error_code == 0
            b.rename(tmp_path / "aside")
            b.write_text("a file")
            code = 0
            while code == 0:  # until a roll needs the directory
                code = (await append(client, "t", batch(bytes(5000)), lost)).error_code
            assert code == STORAGE_ERROR
            assert (await append(client, "t", batch(b"more"), 1 - lost)).error_code == 0
        assert running.stop() == 0
        assert f"log directory {b} has failed" in running.log_text()
        b.unlink()
        (tmp_path / "aside").rename(b)
        running.start()
        async with wire_client(running.bootstrap) as client:
            await until_led(client.call)
            assert (await values(client, "t", lost))[0] == b"kept"
            assert (await append(client, "t", batch(b"again"), lost)).error_code == 0
        assert running.stop() == 0


def test_a_start_without_a_usable_directory(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    command = [sys.executable, "-m", "broker"]
    for name, value in settings(f"{tmp_path}/a,{tmp_path}/b").items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("ottla: ")]
    assert "all log directories have failed" in line
    assert str(tmp_path / "a") in line
    assert str(tmp_path / "b") in line
