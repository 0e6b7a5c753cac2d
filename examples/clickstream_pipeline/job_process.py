"""The job as a process on this machine: `job.py` on a Spark of its own, its words in a file.

It runs in a session of its own, so that Ctrl-C at the terminal is for us alone and we stop it in order.
"""

import asyncio
import contextlib
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from pathlib import Path

from ottla.jvm.spark_environment import spark_environment

JOB = Path(__file__).with_name("job.py")
STOP_TIMEOUT_S = 60.0
_ERROR = re.compile(r"[\w.]*(Error|Exception): .")
_PACKAGES = str(Path(__file__).resolve().parents[2])
_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",  # as many as there are tasks at once; Spark's 200 are for large clusters
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class JobProcess:
    """One run of the job. `folder` gets Java's starter, Spark's temporary files and job.log."""

    def __init__(self, folder: Path, master: str, arguments: Sequence[str]) -> None:
        self._folder = folder
        self._master = master
        self._arguments = arguments
        self._process: Process | None = None
        self.log = folder / "job.log"

    async def start(self) -> None:
        """Start it, and go on. Raises CommandError where there is no Java."""
        settings = _SETTINGS | {
            "spark.local.dir": str(self._folder / "local"),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
        }
        conf = " ".join(f"--conf {name}={value}" for name, value in settings.items())
        paths = [_PACKAGES, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environment = spark_environment(self._folder) | {
            "PYSPARK_SUBMIT_ARGS": f"--master {self._master} {conf} pyspark-shell",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        with self.log.open("ab") as log:
            starting = asyncio.ensure_future(
                asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", str(JOB), *self._arguments),
                    stdin=DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=os.environ | environment,
                    start_new_session=True,
                )
            )
            try:
                await asyncio.shield(starting)
            finally:
                # A start that is cancelled half-way would leave a process behind that nobody ends.
                self._process = await starting

    @property
    def pid(self) -> int | None:
        """The process, once it is started."""
        return None if self._process is None else self._process.pid

    async def wait(self) -> int:
        """Wait until it has ended; its exit code."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> int | None:
        """SIGTERM, and wait; its exit code, None where it never ran. Killed where that takes too long. Idempotent."""
        if self._process is None:
            return None
        if self._process.returncode is None:
            # Not Process.terminate: that polls first, and may take the exit code away from asyncio's child watcher.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self._process.wait()
            except TimeoutError:
                self.kill()
        return await self._process.wait()

    def kill(self) -> None:
        """SIGKILL, to it and to the Java and Python processes that it has started."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def last_words(self) -> str:
        """The last error that it has told of, or its last line."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        errors = [line for line in lines if _ERROR.match(line)]
        return (errors or [line.strip() for line in lines if line.strip()] or ["it said nothing"])[-1]
