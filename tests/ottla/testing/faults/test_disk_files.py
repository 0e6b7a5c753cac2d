"""The file system whose disk fails, fills up and slows down on command."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading

import pytest

from ottla.testing.faults.counter import LocalCounter
from ottla.testing.faults.disk_files import DiskRule, DiskRules
from storage.directories.log_directory import LogDirectory
from storage.file_system import CachedFile
from support.deadlines import DEADLINE_S

EVERYTHING = frozenset({"read", "write", "fsync"})


@pytest.fixture
def rules():
    return DiskRules()


@pytest.fixture
def fs(rules):
    return rules.file_system()


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "disk" / "t-0").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    return tmp_path / "disk"


def refused(call, *args, **named):
    """The errno of a call that must fail."""
    with pytest.raises(OSError, match=r".+") as raised:
        call(*args, **named)
    return raised.value.errno


def test_without_rules_it_is_a_file_system(fs, disk, monkeypatch):
    file = fs.open(f"{disk}/a", create=True)
    fs.write_all(file.fd, b"abc", 0)
    fs.fsync(file.fd)
    assert fs.pread(file.fd, 3, 0) == b"abc"
    assert fs.read_file(f"{disk}/a") == b"abc"
    fs.ftruncate(file.fd, 1)
    fs.rename(f"{disk}/a", f"{disk}/b")
    assert fs.size(f"{disk}/b") == 1
    assert fs.remove(f"{disk}/b")
    closed, close, descriptor = [], os.close, file.fd
    monkeypatch.setattr(os, "close", lambda number: (closed.append(number), close(number)))
    file.close()
    assert descriptor in closed  # fstat could find the next file of another thread under this number


CALLS = {
    "read": [
        lambda fs, fd, path: fs.pread(fd, 1, 0),
        lambda fs, fd, path: fs.pread_now(fd, 1, 0),
        lambda fs, fd, path: fs.sendfile_now(0, fd, 1, 0),
        lambda fs, fd, path: fs.open(path),
        lambda fs, fd, path: fs.read_file(path),
        lambda fs, fd, path: list(fs.list_directory(path.rpartition("/")[0])),
        lambda fs, fd, path: fs.size(path),
    ],
    "write": [
        lambda fs, fd, path: fs.pwrite(fd, b"x", 0),
        lambda fs, fd, path: fs.ftruncate(fd, 0),
        lambda fs, fd, path: fs.open(f"{path}-new", create=True),
        lambda fs, fd, path: fs.create_private(f"{path}-new"),
        lambda fs, fd, path: fs.rename(path, f"{path}-new"),
        lambda fs, fd, path: fs.remove(path),
        lambda fs, fd, path: fs.remove_tree(path.rpartition("/")[0]),
        lambda fs, fd, path: fs.make_directory(f"{path}-folder"),
    ],
    "fsync": [
        lambda fs, fd, path: fs.fsync(fd),
        lambda fs, fd, path: fs.sync_path(path),
        lambda fs, fd, path: fs.sync_directory(path.rpartition("/")[0]),
    ],
}


@pytest.mark.parametrize("operation", CALLS)
def test_operations_that_fail(fs, rules, disk, operation):
    path = f"{disk}/t-0/log"
    file = fs.open(path, create=True)
    rule = DiskRule((str(disk),), fails=frozenset({operation}))
    rules.add(rule)
    assert [refused(call, fs, file.fd, path) for call in CALLS[operation]] == [errno.EIO] * len(CALLS[operation])
    elsewhere = fs.open(f"{disk.parent}/other/log", create=True)
    CALLS[operation][0](fs, elsewhere.fd, f"{disk.parent}/other/log")
    rules.remove(rule)
    CALLS[operation][0](fs, file.fd, path)


def test_a_directory_with_a_longer_name_is_another_one(fs, rules, disk):
    rules.add(DiskRule((f"{disk}/t",), fails=EVERYTHING))
    assert fs.open(f"{disk}/t-0/log", create=True).fd >= 0


def test_copies_for_threads_fail_too(fs, rules, disk):
    other = fs.for_one_thread()
    file = CachedFile(other, f"{disk}/t-0/log", create=True)
    descriptor = file.open().fd
    rules.add(DiskRule((str(disk),), fails=frozenset({"fsync"})))
    assert refused(other.fsync, descriptor) == errno.EIO
    file.release()


def test_a_number_of_failures(fs, rules, disk):
    effects = []
    counter = LocalCounter(2)
    rules.add(DiskRule((str(disk),), fails=EVERYTHING, take=counter.take, on_effect=lambda: effects.append(1)))
    assert [refused(fs.read_file, f"{disk}/t-0/log") for _ in range(3)] == [errno.EIO, errno.EIO, errno.ENOENT]
    assert len(effects) == 2


def test_a_disk_fills_up(fs, rules, disk):
    path = f"{disk}/t-0/log"
    file = fs.open(path, create=True)
    fs.write_all(file.fd, b"0123", 0)
    rule = DiskRule((str(disk),), room=3)
    rules.add(rule)
    fs.write_all(file.fd, b"4567", 0)  # in place
    assert refused(fs.write_all, file.fd, b"89abcdef", 4) == errno.ENOSPC  # the kernel writes what fits, too
    assert fs.read_file(path) == b"456789a"
    assert refused(fs.open, f"{path}-new", create=True) == errno.ENOSPC
    assert refused(fs.make_directory, f"{disk}/u-0") == errno.ENOSPC
    assert fs.pread(file.fd, 1, 0) == b"4"
    fs.fsync(file.fd)
    rules.remove(rule)
    fs.write_all(file.fd, b"89", 7)


def test_what_is_removed_gives_its_room_back(fs, rules, disk):
    """Or the checkpoints, which are written again and again, and the search for room would fill the disk."""
    (disk / "checkpoint").write_bytes(b"before")
    rule = DiskRule((str(disk),), room=10)
    rules.add(rule)
    file = fs.open(f"{disk}/t-0/log", create=True)
    fs.make_directory(f"{disk}/u-0")
    for _ in range(3):
        fs.replace_file(f"{disk}/checkpoint", b"now", sync=False)  # gives more than it takes, but not more room than 10
        fs.write_all(file.fd, b"01234567", 0)
        fs.ftruncate(file.fd, 0)
        fs.write_file(f"{disk}/a", b"01234567", sync=False)
        assert fs.remove(f"{disk}/a")
        assert not fs.remove(f"{disk}/a")
        fs.write_file(f"{disk}/u-0/a", b"01234567", sync=False)
        fs.remove_tree(f"{disk}/u-0")
        fs.make_directory(f"{disk}/u-0")
    directory = LogDirectory(fs, disk)
    directory.write_refused((0, 1))
    assert not directory.has_room()
    assert refused(fs.write_all, file.fd, b"0123456789a", 0) == errno.ENOSPC
    assert fs.read_file(f"{disk}/t-0/log") == b"0123456789"


async def test_a_slow_disk_does_not_hold_up_the_event_loop_and_healing_ends_its_waits(fs, rules, disk):
    file = fs.open(f"{disk}/t-0/log", create=True)
    fs.write_all(file.fd, b"abc", 0)
    waits = threading.Event()
    rule = DiskRule((str(disk),), delay_s=3600, on_effect=waits.set)
    rules.add(rule)
    fs.fsync(file.fd)  # in the loop's thread
    with socket.socket() as unused:
        assert fs.sendfile_now(unused.fileno(), file.fd, 3, 0) is None
    assert fs.pread_now(file.fd, 3, 0) is None  # so the broker reads in a thread
    reading = asyncio.create_task(fs.run_blocking(lambda: fs.pread(file.fd, 3, 0)))
    assert await asyncio.to_thread(waits.wait, DEADLINE_S)
    assert not reading.done()
    rules.remove(rule)
    async with asyncio.timeout(DEADLINE_S):
        assert await reading == b"abc"
