"""The compaction process: `python -m storage.compaction.worker`, started and ended by a broker.

Commands are lines of JSON on standard input: `{"job": …}` runs a compaction; `{"rate": bytes per second}` limits the
reads and writes from then on, null means no limit. Answers are lines on standard output: `{"group": …}` for every
`.cleaned` segment that is on disk, then `{"done": …}` or `{"error": …}`. The process writes `.cleaned` files only.

The process polls standard input before every read and write of the log. End of file means that the broker has ended,
in whatever way: the process then removes its unfinished files and exits. It is a process because a thread would share
the interpreter lock with the broker's event loop. It runs at low priority.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from storage.compaction.compaction import Compaction, CompactionJob
from storage.errors import LogDirIOError
from storage.file_system import FileSystem

NICENESS = 10
_READ_BYTES = 1 << 16
_SHORTEST_WAIT_S = 0.001


class Commands:
    """The commands, lines of JSON, that arrive at a file descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def next(self, timeout_s: float | None = 0) -> dict[str, Any] | None:
        """Return the next command, None if there is none within `timeout_s` (None: no limit). Raises EOFError."""
        while b"\n" not in self._buffer:
            if not self._poll.poll(None if timeout_s is None else math.ceil(timeout_s * 1000)):
                return None
            data = os.read(self._fd, _READ_BYTES)
            if not data:
                raise EOFError
            self._buffer += data
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        command: dict[str, Any] = json.loads(line)
        return command


class Pace:
    """Limit the rate of reads and writes: each call waits for the time that its bytes take at that rate."""

    def __init__(self, commands: Commands, now_s: Callable[[], float]) -> None:
        self._commands = commands
        self._now_s = now_s
        self._rate = math.inf
        self._due_s = now_s()

    def set_rate(self, bytes_per_second: float | None) -> None:
        """Set the rate, also for a wait in progress; None: no limit."""
        rate = math.inf if bytes_per_second is None else bytes_per_second
        now = self._now_s()
        owed = max(self._due_s - now, 0) * self._rate if self._rate < math.inf else 0
        self._due_s = now + owed / rate
        self._rate = rate

    def __call__(self, size: int) -> None:
        """Account for `size` bytes of a read or write and wait. Raises EOFError if the broker has ended."""
        self._due_s = max(self._due_s, self._now_s()) + size / self._rate
        while True:
            wait = self._due_s - self._now_s()
            command = self._commands.next(wait if wait > _SHORTEST_WAIT_S else 0)
            if command is not None:
                self.set_rate(command["rate"])
            elif wait <= _SHORTEST_WAIT_S:
                return


def work(job: CompactionJob, fs: FileSystem, pace: Pace, answer: Callable[[dict[str, Any]], None]) -> None:
    """Run a job and send the answers. Raises EOFError if the broker has ended."""
    try:
        compaction = Compaction(job, fs, pace)
        for group in compaction.run():
            answer({"group": asdict(group)})
        answer({"done": asdict(compaction.result)})
    except EOFError:
        raise
    except (OSError, LogDirIOError) as error:
        cause = error.cause if isinstance(error, LogDirIOError) else error
        answer({"error": {"errno": cause.errno, "message": str(error)}})
    except MemoryError:
        raise
    except Exception as error:
        answer({"error": {"message": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}})


def main() -> None:
    """Serve one broker until its end of the pipe is closed."""
    # Signals to the broker's process group are not for this process: the broker ends it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    commands = Commands(0)
    pace = Pace(commands, time.monotonic)
    fs = FileSystem()

    def answer(message: dict[str, Any]) -> None:
        os.write(1, json.dumps(message).encode() + b"\n")

    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            command = commands.next(None)
            assert command is not None
            if "job" in command:
                work(CompactionJob.from_json(command["job"]), fs, pace, answer)
            else:
                pace.set_rate(command["rate"])


if __name__ == "__main__":
    main()
