"""What `ottla cluster --zookeeper` leaves behind if it is killed: temporary data, and its chroot in ZooKeeper.

A temporary data directory of such a cluster has two files that are locked (flock): `.command` as long as the command
runs, `.processes` as long as the command or one of its brokers runs, which inherit it. `zookeeper.connect` has the
address with the chroot; it is written when both are locked. So the next start on this machine
finds what is not used any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

CONNECT: Final = "zookeeper.connect"
PREFIX: Final = "ottla-cluster-"
_COMMAND: Final = ".command"
_PROCESSES: Final = ".processes"
_OWN: Final = re.compile(rf".*/{PREFIX}[0-9a-f]{{8}}")


class DirectoryLocks(NamedTuple):
    """The locks of one data directory."""

    command: IO[bytes]
    processes: IO[bytes]

    @classmethod
    def take(cls, data_dir: Path) -> Self:
        """Lock a new directory. Raises OSError."""
        return cls(_locked(data_dir / _COMMAND), _locked(data_dir / _PROCESSES))

    def close(self) -> None:
        """Release them; `processes` stays locked while a process that has inherited it runs."""
        self.command.close()
        self.processes.close()


class Leftover(NamedTuple):
    """The temporary data of a cluster whose command was killed."""

    data_dir: Path
    connect: str
    """The address with the chroot."""
    lock: IO[bytes] | None
    """Held until `close`; None if brokers of the cluster still run."""

    def close(self) -> None:
        """Release the lock."""
        if self.lock is not None:
            self.lock.close()

    def delete_data(self) -> None:
        """Delete the directory."""
        shutil.rmtree(self.data_dir, ignore_errors=True)


def leftovers() -> Iterator[Leftover]:
    """Yield the clusters of this user whose commands were killed. Close each one."""
    for data_dir in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):
            found = _leftover(data_dir)
            if found is not None:
                yield found


def _leftover(data_dir: Path) -> Leftover | None:
    """Return what a directory is; None if its command runs. Raises OSError for another kind of directory."""
    if data_dir.is_symlink() or data_dir.stat().st_uid != os.getuid():
        return None
    connect = (data_dir / CONNECT).read_text().strip()
    if not _OWN.fullmatch(connect):
        return None  # a path that the user has chosen
    with _locked(data_dir / _COMMAND):
        try:
            return Leftover(data_dir, connect, _locked(data_dir / _PROCESSES))
        except BlockingIOError:
            return Leftover(data_dir, connect, None)


def _locked(path: Path) -> IO[bytes]:
    """Open and lock a file. Raises BlockingIOError if another process has locked it."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file
