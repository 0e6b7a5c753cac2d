"""Running compaction jobs in a child process or inline.

A broker uses `ProcessCompactor`. `InlineCompactor` does the same work in the caller's thread and with the caller's
file system, for simulations and for tests that inject disk failures.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from storage.compaction.compaction import CleanedGroup, Compaction, CompactionJob, CompactionResult
from storage.compaction.filter import CompactionStats
from storage.errors import LogDirIOError, UncleanableLogError
from storage.file_system import FileSystem

logger = logging.getLogger(__name__)

OnGroup = Callable[[CleanedGroup], Awaitable[None]]

_PACKAGES = str(Path(__file__).resolve().parents[__name__.count(".")])
_LONGEST_LINE = 1 << 20


class CompactionProcessError(Exception):
    """The compaction process could not be started or ended during a job: it was killed or ran out of memory."""


class Compactor(Protocol):
    """Runs compaction jobs, one at a time."""

    async def run(self, job: CompactionJob, on_group: OnGroup) -> CompactionResult:
        """Run a job; await `on_group` for each group when it is on disk.

        Raises UncleanableLogError for data that cannot be compacted, OSError, LogDirIOError, CompactionProcessError,
        and the exceptions of `on_group`.
        """

    def set_rate(self, bytes_per_second: float) -> None:
        """Limit the rate of reads and writes, also of a running job."""

    def kill(self) -> None:
        """Abort the running job: `run` raises CompactionProcessError."""

    async def close(self) -> None:
        """Abort the running job and release all resources. May be called more than once."""


class InlineCompactor:
    """Runs jobs in the caller's thread. The event loop runs between two groups. The rate is not limited."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._killed = False

    async def run(self, job: CompactionJob, on_group: OnGroup) -> CompactionResult:
        """See `Compactor`."""
        self._killed = False
        compaction = Compaction(job, self._fs)
        groups = compaction.run()
        while True:
            try:
                group = next(groups, None)
            except (OSError, LogDirIOError):
                raise
            except Exception as error:
                raise UncleanableLogError(f"{type(error).__name__}: {error}") from error
            if group is None:
                return compaction.result
            await on_group(group)
            await asyncio.sleep(0)
            if self._killed:
                raise CompactionProcessError("the job was aborted")

    def set_rate(self, bytes_per_second: float) -> None:
        """Do nothing."""

    def kill(self) -> None:
        """See `Compactor`."""
        self._killed = True

    async def close(self) -> None:
        """See `Compactor`."""
        self.kill()


class ProcessCompactor:
    """Runs jobs in a child process. The first job starts it; later jobs use the same process."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._rate = math.inf

    @property
    def pid(self) -> int | None:
        """The process id of the child; None if there is no child."""
        return None if self._process is None else self._process.pid

    async def run(self, job: CompactionJob, on_group: OnGroup) -> CompactionResult:
        """See `Compactor`."""
        if self._process is not None and self._process.returncode is not None:
            logger.warning("%s; it is started again", await self._ended(self._process))
        process = self._process or await self._start()
        try:
            self._send({"job": job.to_json()})
        except (OSError, RuntimeError):
            raise await self._ended(process) from None
        while True:
            answer = await self._answer(process)
            if "group" in answer:
                await on_group(CleanedGroup(**answer["group"]))
            elif "done" in answer:
                done = answer["done"]
                return CompactionResult(done["end_offset"], CompactionStats(**done["stats"]))
            else:
                raise _error(answer["error"])

    async def _start(self) -> Process:
        paths = [_PACKAGES, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        # -P: do not import packages from the working directory.
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", f"{__package__}.worker",
                stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            )
        )  # fmt: skip
        try:
            try:
                await asyncio.shield(starting)
            finally:
                # A cancelled start must still be awaited: else a process is left that nothing ends.
                self._process = process = await starting
        except OSError as error:
            raise CompactionProcessError(f"the process for compaction cannot be started: {error}") from error
        self.set_rate(self._rate)
        return process

    async def _answer(self, process: Process) -> dict[str, Any]:
        assert process.stdout is not None
        try:
            line = await process.stdout.readline()
        except OSError:  # asyncio reports the failure of a write to the process here
            raise await self._ended(process) from None
        if not line.endswith(b"\n"):
            raise await self._ended(process)
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def _ended(self, process: Process) -> CompactionProcessError:
        """Close, and return the error to raise after a read from or a write to the process has failed."""
        await self.close()
        return CompactionProcessError(f"the process for compaction has ended with exit code {process.returncode}")

    def _send(self, command: dict[str, Any]) -> None:
        """Send a command. If the process has ended, asyncio raises nothing or OSError, uvloop RuntimeError."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    def set_rate(self, bytes_per_second: float) -> None:
        """See `Compactor`."""
        self._rate = bytes_per_second
        if self._process is not None:
            with contextlib.suppress(OSError, RuntimeError):  # the process has ended: `run` reports it
                self._send({"rate": bytes_per_second if bytes_per_second < math.inf else None})

    def kill(self) -> None:
        """See `Compactor`."""
        # Not Process.kill: it polls first. If the process has ended already, that poll takes the exit code from
        # asyncio's child watcher, which then reports 255.
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """See `Compactor`."""
        process = self._process
        if process is None:
            return
        self.kill()
        assert process.stdin is not None
        process.stdin.close()
        ended = asyncio.ensure_future(process.wait())
        try:
            await asyncio.shield(ended)
        finally:
            await ended  # also if the caller is cancelled: a killed process ends at once
            self._process = None


def _error(error: dict[str, Any]) -> Exception:
    """Return the exception for an error that the child has reported."""
    if "errno" in error:
        return OSError(error["errno"], error["message"])
    return UncleanableLogError(error["message"])
