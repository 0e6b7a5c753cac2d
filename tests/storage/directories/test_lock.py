"""The lock of a log directory, against other processes and against a removal of its file meanwhile."""

import fcntl
import subprocess
import sys
from types import SimpleNamespace

import pytest

from storage.directories import lock
from storage.directories.log_directory import LogDirectory
from storage.errors import LogDirLockedError
from storage.file_system import FileSystem


def test_another_process(tmp_path):
    directory = LogDirectory(FileSystem(), tmp_path)
    directory.lock()
    # The JVM locks the process's way, by fcntl.
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", code, str(tmp_path / ".lock")]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
    directory.unlock()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_process_that_a_killed_broker_was_starting_has_the_lock_until_it_is_another_program(tmp_path, monkeypatch):
    with (tmp_path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[file.fileno()]
        )
    waits = []

    def end_child(wait_s):
        waits.append(wait_s)
        child.communicate()

    monkeypatch.setattr(lock, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=end_child))
    directory = LogDirectory(FileSystem(), tmp_path)
    directory.lock()
    directory.unlock()
    assert len(waits) == 1


def test_the_lock_file_is_removed_with_the_lock(tmp_path):
    """As in Kafka. Who has opened it just before must not take that for a lock."""

    class Meanwhile(FileSystem):
        removed = False

        def open(self, path, *, create=False):
            opened = super().open(path, create=create)
            if not self.removed:
                self.removed = True
                self.remove(path)
            return opened

    first = LogDirectory(Meanwhile(), tmp_path)
    first.lock()
    with pytest.raises(LogDirLockedError):
        LogDirectory(FileSystem(), tmp_path).lock()
    first.unlock()
    assert list(tmp_path.iterdir()) == []
