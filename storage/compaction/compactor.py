"""Where compaction jobs are done: in a process of their own, or inline.

`ProcessCompactor` is what a broker uses. `InlineCompactor` does the same work in the caller's thread and through the
caller's file system: for simulations, and for tests that break the file system.
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

_PACKAGES = str(Path(__file__).resolve().parents[2])
_LONGEST_LINE = 1 << 20


class CompactionProcessError(Exception):
    """The process ended in the middle of a job: killed from outside, out of memory, or unable to start."""


class Compactor(Protocol):
    """One job at a time."""

    async def run(self, job: CompactionJob, on_group: OnGroup) -> CompactionResult:
        """Do a job; `on_group` is awaited for each group that is on disk.

        Raises UncleanableLogError for data that cannot be compacted, OSError (also inside LogDirIOError),
        CompactionProcessError, and what `on_group` raises.
        """

    def set_rate(self, bytes_per_second: float) -> None:
        """Limit reads and writes from now on."""

    def kill(self) -> None:
        """Break off the job that is being done: `run` raises CompactionProcessError."""

    async def close(self) -> None:
        """Break off what is being done and give everything back. May be called again."""


class InlineCompactor:
    """Jobs done in the caller's thread; the event loop gets its turn between two groups. Knows no limit."""

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
                raise CompactionProcessError("the job was broken off")

    def set_rate(self, bytes_per_second: float) -> None:
        """Nothing is limited here."""

    def kill(self) -> None:
        """See `Compactor`."""
        self._killed = True

    async def close(self) -> None:
        """Nothing is held."""
        self.kill()


class ProcessCompactor:
    """Jobs done in a child process, which is started by the first one and stays for the next."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._rate = math.inf

    @property
    def pid(self) -> int | None:
        """The child's process id while there is one."""
        return None if self._process is None else self._process.pid

    async def run(self, job: CompactionJob, on_group: OnGroup) -> CompactionResult:
        """See `Compactor`."""
        if self._process is not None and self._process.returncode is not None:
            logger.warning("%s, and is started again", await self._ended(self._process))
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
        # -P: what lies in the working directory must not be taken for a package of ours.
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "storage.compaction.worker",
                stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            )
        )  # fmt: skip
        try:
            try:
                await asyncio.shield(starting)
            finally:
                # A start that is cancelled half-way would leave a process behind that nobody ends.
                self._process = process = await starting
        except OSError as error:
            raise CompactionProcessError(f"the process for compaction cannot be started: {error}") from error
        self.set_rate(self._rate)
        return process

    async def _answer(self, process: Process) -> dict[str, Any]:
        assert process.stdout is not None
        try:
            line = await process.stdout.readline()
        except OSError:  # asyncio hands on what a write to the process has failed with
            raise await self._ended(process) from None
        if not line.endswith(b"\n"):
            raise await self._ended(process)
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def _ended(self, process: Process) -> CompactionProcessError:
        """The error to raise when the process does not take or give anything any more."""
        await self.close()
        return CompactionProcessError(f"the process for compaction has ended with {process.returncode}")

    def _send(self, command: dict[str, Any]) -> None:
        """Write a command. A process that has ended: asyncio raises nothing or OSError, uvloop RuntimeError."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    def set_rate(self, bytes_per_second: float) -> None:
        """See `Compactor`."""
        self._rate = bytes_per_second
        if self._process is not None:
            with contextlib.suppress(OSError, RuntimeError):  # it has ended: `run` tells
                self._send({"rate": bytes_per_second if bytes_per_second < math.inf else None})

    def kill(self) -> None:
        """See `Compactor`."""
        # Not Process.kill: that polls first, and where the process has ended already, it takes the exit code away from
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
            await ended  # also where the caller is cancelled meanwhile: a killed process is gone at once
            self._process = None


def _error(error: dict[str, Any]) -> Exception:
    """What to raise for an error that the child has told of."""
    if "errno" in error:
        return OSError(error["errno"], error["message"])
    return UncleanableLogError(error["message"])
