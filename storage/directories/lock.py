"""The lock on a file that excludes other brokers, Kafka's too, from a log directory."""

from __future__ import annotations

import fcntl
import time

LONGEST_START_S = 2.0
"""How long a process that a killed broker has just forked may take to become another program."""


def take_lock(fd: int, kind: int) -> None:
    """Lock an open file. Blocks for at most LONGEST_START_S. Raises OSError if another holds the lock.

    Two locks are taken: a process lock, as the JVM does, and a lock on the open file, so that two brokers in one
    process exclude each other, too. A process that was forked when its broker was killed has inherited only the second
    one, until it becomes another program.

    kind: fcntl.LOCK_EX or fcntl.LOCK_SH.
    """
    fcntl.lockf(fd, kind | fcntl.LOCK_NB)
    deadline = time.monotonic() + LONGEST_START_S
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
