"""The log directories of a broker: locks, owners, loading, checkpoints, deletion, periodic work, clean stop."""

import asyncio
import errno
import random
import shutil
from contextlib import asynccontextmanager

import pytest

from storage.directories.delayed_deletes import DelayedDeletes
from storage.errors import (
    InconsistentBrokerIdError,
    InconsistentClusterIdError,
    InconsistentTopicIdError,
    LogDirIOError,
    LogDirLockedError,
)
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from support.deadlines import DEADLINE_S
from support.log_dirs import BASE_TIME_MS, EXPECTED, LOG_DIRS, RECORDED_NOW_MS, batch, expected, read_batches
from support.power_cut import PowerCutFileSystem

TOPIC_ID = b"T" * 16


def manager(*paths, **options):
    settings = options.pop("settings", {})
    clock = options.pop("clock", None) or [RECORDED_NOW_MS]
    return LogManager(
        paths,
        lambda topic: LogConfig().with_overrides(**settings),
        fs=options.pop("fs", None) or FileSystem(),
        now_ms=lambda: clock[0],
        rng=random.Random(1),
        **options,
    )


@asynccontextmanager
async def running(logs):
    task = asyncio.create_task(logs.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def text(path, name):
    return (path / name).read_text() if (path / name).exists() else ""


class TestLock:
    def test_two_brokers_exclude_each_other(self, tmp_path):
        first = manager(tmp_path / "a")
        first.dirs.lock()
        second = manager(tmp_path / "b", tmp_path / "a")
        with pytest.raises(LogDirLockedError, match=str(tmp_path / "a")):
            second.dirs.lock()
        third = manager(tmp_path / "b")
        third.dirs.lock()  # the failed one has let go of it
        first.dirs.unlock()
        fourth = manager(tmp_path / "a")
        fourth.dirs.lock()
        fourth.dirs.unlock()
        third.dirs.unlock()


class TestMeta:
    def test_a_new_directory_gets_the_id_of_this_broker(self, tmp_path):
        logs = manager(tmp_path / "a", tmp_path / "b")
        logs.dirs.lock()
        assert logs.dirs.check_meta(3).cluster_id is None
        logs.dirs.write_meta(3, "cluster-x")
        again = manager(tmp_path / "b", tmp_path / "a", tmp_path / "c")
        assert (again.dirs.check_meta(None).broker_id, again.dirs.check_meta(None).cluster_id) == (3, "cluster-x")
        with pytest.raises(InconsistentBrokerIdError, match="belongs to broker 3, this is broker 4"):
            again.dirs.check_meta(4)
        with pytest.raises(InconsistentClusterIdError, match="cluster-x"):
            again.dirs.write_meta(3, "cluster-y")
        logs.dirs.unlock()

    def test_directories_that_disagree(self, tmp_path):
        for name, broker, cluster in (("a", 1, "x"), ("b", 2, "x"), ("c", 1, "y")):
            logs = manager(tmp_path / name)
            logs.dirs.lock()
            logs.dirs.write_meta(broker, cluster)
            logs.dirs.unlock()
        with pytest.raises(InconsistentBrokerIdError):
            manager(tmp_path / "a", tmp_path / "b").dirs.check_meta(None)
        with pytest.raises(InconsistentClusterIdError):
            manager(tmp_path / "a", tmp_path / "c").dirs.check_meta(None)

    def test_unknown_keys_of_meta_properties_are_kept(self, tmp_path):
        meta = tmp_path / "meta.properties"
        text = "#\nversion=0\nbroker.id=3\ncluster.id=cluster-x\ndirectory.id=bnmSj7nlTHYvFCT3VNZvdQ\n"
        meta.write_text(text)
        manager(tmp_path).dirs.write_meta(3, "cluster-x")
        assert meta.read_text() == text


async def test_a_recorded_log_directory(tmp_path):
    """Kafka's whole directory loads, and what a clean stop leaves is what Kafka left."""
    path = tmp_path / "broker-0"
    shutil.copytree(LOG_DIRS / "broker-0", path, copy_function=shutil.copyfile)
    for directory in (path, *path.iterdir()):
        if directory.is_dir():
            directory.chmod(0o755)
    before = {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    logs = manager(path)
    logs.dirs.lock()
    assert logs.dirs.check_meta(0).cluster_id == "o49C908cRjWCOSxMqwtNNw"
    await logs.load()
    assert not (path / ".kafka_cleanshutdown").exists()
    assert logs.dirs.all[0].clean
    names = {name for name in EXPECTED if "." not in name}
    assert {f"{topic}-{partition}" for topic, partition in logs.logs} == names
    for name in names:
        topic, _, partition = name.rpartition("-")
        log = logs.get(topic, int(partition))
        last = expected(name)["segments"][-1]
        assert len(read_batches(log)) > 0 or not last["batches"]
        assert log.high_watermark == log.log_end_offset
    start = logs.get("start-offset", 0)
    assert (start.log_start_offset, start.high_watermark) == (61, 100)
    await logs.shutdown()
    after = {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    checkpoints = {file for file in before if file.name.endswith("offset-checkpoint")}
    for file in checkpoints:
        kept = [
            line
            for line in before[file].decode().splitlines()[2:]
            if line.rpartition(" ")[0].replace(" ", "-") in names
        ]
        assert sorted(after[file].decode().splitlines()[2:]) == sorted(kept), file
    same = {file for file in before if file not in checkpoints and file.name != "leader-epoch-checkpoint"}
    same = {file for file in same if not (file.parts[0] == "start-offset-0" and file.suffix == ".snapshot")}
    for file in same:
        assert after[file] == before[file], file
    new = {str(file) for file in after if file not in before}
    assert new == set()


async def test_clean_stop_and_start(tmp_path):
    path = tmp_path / "logs"
    logs = manager(path)
    logs.dirs.lock()
    await logs.load()
    log = logs.get_or_create("t", 0, TOPIC_ID)
    assert logs.get_or_create("t", 0, TOPIC_ID) is log
    assert logs.get_or_create("t", 0) is log
    with pytest.raises(InconsistentTopicIdError):
        logs.get_or_create("t", 0, b"U" * 16)
    for _ in range(5):
        log.append_as_leader(batch("a"), 0)
    log.update_high_watermark(4)
    log.increment_log_start_offset(2)
    await logs.shutdown(broker_epoch=17)
    assert text(path, ".kafka_cleanshutdown") == '{"version":0,"brokerEpoch":17}'
    assert text(path, "recovery-point-offset-checkpoint") == "0\n1\nt 0 5\n"
    assert text(path, "log-start-offset-checkpoint") == "0\n1\nt 0 2\n"
    assert text(path, "replication-offset-checkpoint") == "0\n1\nt 0 4\n"
    logs = manager(path)
    logs.dirs.lock()
    await logs.load()
    assert logs.dirs.all[0].clean
    log = logs.get("t", 0)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (2, 4, 5, 5)
    assert log.topic_id == TOPIC_ID
    assert logs.get("t", 1) is None
    logs.dirs.unlock()


@pytest.mark.parametrize("threads", [1, 3])
async def test_a_start_after_a_kill_recovers_from_the_recovery_points(tmp_path, threads):
    logs = manager(tmp_path)
    logs.dirs.lock()
    await logs.load()
    for partition in range(5):
        log = logs.get_or_create("t", partition, TOPIC_ID)
        for _ in range(partition + 1):
            log.append_as_leader(batch("a"), 0)
    await logs.flush(logs.get("t", 4))
    await logs.checkpoints.write_recovery_points()
    logs.dirs.unlock()
    logs = manager(tmp_path, recovery_threads=threads)
    logs.dirs.lock()
    await logs.load()
    assert not logs.dirs.all[0].clean
    assert [logs.get("t", partition).log_end_offset for partition in range(5)] == [1, 2, 3, 4, 5]
    assert [logs.get("t", partition).recovery_point for partition in range(5)] == [0, 0, 0, 0, 5]
    logs.dirs.unlock()


async def test_a_start_after_a_kill_syncs_what_flush_messages_wants_on_the_disk(tmp_path):
    """The process was killed between a write and its sync: the log end offset that a leader learns must not go back."""
    logs = manager(tmp_path, settings={"flush_messages": 2})
    logs.dirs.lock()
    await logs.load()
    for partition in range(2):
        for _ in range(partition + 1):
            logs.get_or_create("t", partition, TOPIC_ID).append_as_leader(batch("a"), 0)
    await logs.checkpoints.write_recovery_points()
    logs.dirs.unlock()
    fs = PowerCutFileSystem(tmp_path)
    logs = manager(tmp_path, fs=fs, settings={"flush_messages": 2})
    logs.dirs.lock()
    await logs.load()
    assert [logs.get("t", partition).log_end_offset for partition in range(2)] == [1, 2]
    assert [logs.get("t", partition).recovery_point for partition in range(2)] == [0, 2]
    assert any(words == "fsync" for words, _ in fs.journal)
    logs.dirs.unlock()


async def test_new_logs_go_to_the_directory_with_the_fewest_logs(tmp_path):
    logs = manager(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    logs.dirs.lock()
    await logs.load()
    for partition in range(6):
        logs.get_or_create("t", partition)
    counts = [len(directory.partition_directories()) for directory in logs.dirs.all]
    assert counts == [2, 2, 2]
    await logs.shutdown()


async def test_foreign_files_are_kept(tmp_path, caplog):
    for name in ("lost+found", ".hidden", "notes", "t-0.0123-future", "t-1.0123-stray"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").write_text("x")
    logs = manager(tmp_path)
    await logs.load()
    assert logs.logs == {}
    assert "lost+found" in caplog.text
    assert (tmp_path / "notes").is_dir()


class TestDeletion:
    async def test_renamed_at_once_removed_later(self, tmp_path):
        clock = [RECORDED_NOW_MS]
        logs = manager(tmp_path, clock=clock, settings={"file_delete_delay_ms": 1000})
        await logs.load()
        log = logs.get_or_create("to-delete", 0, TOPIC_ID)
        log.append_as_leader(batch("a"), 0)
        log.update_high_watermark(1)
        log.increment_log_start_offset(1)
        await logs.checkpoints.write_log_start_offsets()
        reading = log.read(0, 100, max_offset=1).records if log.log_start_offset == 0 else None
        assert reading is None
        await logs.delete("to-delete", 0)
        await logs.delete("to-delete", 0)
        assert logs.get("to-delete", 0) is None
        (renamed,) = [file.name for file in tmp_path.iterdir() if file.is_dir()]
        prefix, _, rest = renamed.partition(".")
        assert (prefix, len(rest), rest[32:]) == ("to-delete-0", 39, "-delete")
        int(rest[:32], 16)
        assert text(tmp_path, "log-start-offset-checkpoint") == "0\n0\n"
        async with running(logs):
            # A topic of the same name has nothing to do with the old one.
            log = logs.get_or_create("to-delete", 0, b"U" * 16)
            assert (log.log_start_offset, log.log_end_offset) == (0, 0)
            clock[0] += 1001
            logs._work.wake()
            await until(lambda: not (tmp_path / renamed).exists())
            assert (tmp_path / "to-delete-0").is_dir()

    async def test_names_are_cut_to_255(self, tmp_path):
        logs = manager(tmp_path)
        await logs.load()
        logs.get_or_create("x" * 249, 12)
        await logs.delete("x" * 249, 12)
        (renamed,) = [file.name for file in tmp_path.iterdir() if file.is_dir()]
        assert len(renamed) == 255
        assert renamed.startswith("xxx")
        assert renamed.endswith("-delete")

    async def test_an_interrupted_deletion_continues(self, tmp_path):
        logs = manager(tmp_path, settings={"file_delete_delay_ms": 0})
        await logs.load()
        logs.get_or_create("t", 0)
        await logs.delete("t", 0)
        logs = manager(tmp_path, settings={"file_delete_delay_ms": 0})
        await logs.load()
        assert logs.logs == {}
        async with running(logs):
            await until(lambda: not [file for file in tmp_path.iterdir() if file.is_dir()])


class TestPeriodicWork:
    async def test_checkpoints(self, tmp_path):
        logs = manager(
            tmp_path,
            flush_offset_checkpoint_interval_ms=20,
            flush_start_offset_checkpoint_interval_ms=20,
            high_watermark_checkpoint_interval_ms=20,
        )
        await logs.load()
        log = logs.get_or_create("t", 0)
        for _ in range(3):
            log.append_as_leader(batch("a"), 0)
        log.update_high_watermark(3)
        log.increment_log_start_offset(1)
        async with running(logs):
            await until(lambda: (tmp_path / "log-start-offset-checkpoint").exists())
            await until(lambda: text(tmp_path, "log-start-offset-checkpoint") == "0\n1\nt 0 1\n")
            await until(lambda: text(tmp_path, "replication-offset-checkpoint") == "0\n1\nt 0 3\n")
            await until(lambda: text(tmp_path, "recovery-point-offset-checkpoint") == "0\n1\nt 0 1\n")

    async def test_a_roll_is_followed_by_a_sync(self, tmp_path):
        logs = manager(tmp_path, settings={"segment_bytes": 100})
        await logs.load()
        log = logs.get_or_create("t", 0)
        async with running(logs):
            for _ in range(4):
                log.append_as_leader(batch("a" * 20), 0)
            assert log.recovery_point == 0
            await until(lambda: log.recovery_point == 3)

    async def test_a_wait_for_a_sync_excludes_truncated_records(self, tmp_path):
        logs = manager(tmp_path)
        await logs.load()
        log = logs.get_or_create("t", 0)
        for _ in range(3):
            log.append_as_leader(batch("a"), 0)
        await logs.flush_up_to(log, 2)
        assert log.recovery_point == 3
        log.append_as_leader(batch("a"), 0)
        await logs.truncate_to(log, 1)
        await asyncio.wait_for(logs.flush_up_to(log, 4), DEADLINE_S)
        assert log.log_end_offset == 1

    async def test_flush_ms(self, tmp_path):
        clock = [RECORDED_NOW_MS]
        logs = manager(tmp_path, clock=clock, settings={"flush_ms": 500}, flush_scheduler_interval_ms=10)
        await logs.load()
        log = logs.get_or_create("t", 0)
        log.append_as_leader(batch("a"), 0)
        async with running(logs):
            await asyncio.sleep(0.05)
            assert log.recovery_point == 0
            clock[0] += 500
            await until(lambda: log.recovery_point == 1)

    async def test_retention(self, tmp_path):
        logs = manager(
            tmp_path,
            settings={"segment_bytes": 100, "retention_bytes": 0, "file_delete_delay_ms": 0},
            retention_check_interval_ms=10,
        )
        await logs.load()
        log = logs.get_or_create("t", 0)
        for _ in range(4):
            log.append_as_leader(batch("a" * 20), 0)
        async with running(logs):
            log.update_high_watermark(3)
            await until(lambda: log.log_start_offset == 3)
            await until(lambda: not list(log.directory.glob("*.deleted")))
        assert len(read_batches(log)) == 1

    async def test_retention_ignores_logs_without_a_known_topic(self, tmp_path):
        """The registry may not know the topic (yet): nobody has said then how long to keep it."""
        settings = {"segment_bytes": 100, "retention_bytes": 0, "file_delete_delay_ms": 0}
        logs = manager(tmp_path, settings=settings)
        await logs.load()
        for topic in ("known", "unknown"):
            log = logs.get_or_create(topic, 0)
            for _ in range(4):
                log.append_as_leader(batch("a" * 20), 0)
            log.update_high_watermark(4)
        await logs.shutdown()
        again = manager(tmp_path, settings=settings)
        await again.load()
        again.get_or_create("known", 0)
        await again.delete_old_segments()
        assert again.logs["known", 0].log_start_offset == 4
        assert again.logs["unknown", 0].log_start_offset == 0
        assert len(read_batches(again.logs["unknown", 0])) == 4

    async def test_producers_expire(self, tmp_path):
        clock = [BASE_TIME_MS]
        logs = manager(
            tmp_path, clock=clock, producer_id_expiration_ms=1000, producer_id_expiration_check_interval_ms=10
        )
        await logs.load()
        log = logs.get_or_create("t", 0)
        log.append_as_leader(batch("a", producer=(7, 0, 0)), 0)
        async with running(logs):
            await asyncio.sleep(0.03)
            assert 7 in log.producers.producers
            clock[0] += 1000
            await until(lambda: not log.producers.producers)

    async def test_a_failed_directory_stops_the_service_with_the_reason(self, tmp_path):
        logs = manager(tmp_path / "a", high_watermark_checkpoint_interval_ms=10)
        logs.dirs.lock()
        await logs.load()
        shutil.rmtree(tmp_path / "a")
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(Exception, match="No such file"):
                await logs.run()
        logs.dirs.unlock()


async def test_a_directory_that_cannot_be_closed_is_not_marked_clean(tmp_path):
    logs = manager(tmp_path / "a", tmp_path / "b")
    logs.dirs.lock()
    await logs.load()
    logs.get_or_create("t", 0).append_as_leader(batch("x"), 0)
    logs.get_or_create("t", 1).append_as_leader(batch("x"), 0)
    shutil.rmtree(tmp_path / "a" / "t-0")
    await logs.shutdown()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


async def test_files_scheduled_for_removal_in_a_failed_directory_are_kept(tmp_path):
    deletes = DelayedDeletes(FileSystem(), lambda: 0, lambda: None)
    assert deletes.next_due_ms is None
    paths = [tmp_path / place / "t-0" / "0.log.deleted" for place in ("a", "b", "ab")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.touch()
        deletes.add([str(path)], 0)
        assert deletes.next_due_ms == 0
    deletes.add([str(tmp_path)], 1)
    deletes.forget(str(tmp_path / "a"))
    await deletes.run_due()
    assert [path.exists() for path in paths] == [True, False, False]
    assert deletes.next_due_ms == 1


async def test_a_directory_without_space_for_checkpoints_is_not_marked_clean(tmp_path):
    class Full(FileSystem):
        is_full = False

        def replace_file(self, path, data, *, sync):
            if self.is_full and path.endswith("recovery-point-offset-checkpoint"):
                raise LogDirIOError(path, OSError(errno.ENOSPC, "No space left on device"))
            super().replace_file(path, data, sync=sync)

    fs = Full()
    logs = manager(tmp_path, fs=fs)
    logs.dirs.lock()
    await logs.load()
    logs.get_or_create("t", 0).append_as_leader(batch("a"), 0)
    fs.is_full = True
    await logs.shutdown()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
