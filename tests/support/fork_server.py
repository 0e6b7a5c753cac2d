"""Processes that are forked from a server which has imported everything, so that none of them imports it again.

There is one server for each process of pytest (Python's `multiprocessing.forkserver`), started when first asked for.
What it forks is a process of its own in every respect: it has its own event loop, files and signals, and can be killed.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PRELOADED = ["broker.__main__", "client.listener.container", "client.zookeeper.consumer", "confluent_kafka"]
"""The helpers of the tests are not on the server's path (Python 3.11), and cost little."""

ONE_AT_A_TIME = threading.Lock()
"""Starting a process looks after all others, too: of two threads that fetch an exit code at the same time one gets 255
(popen_forkserver.Popen.poll)."""


def fork_server() -> ForkServerContext:
    """Return the server that forks all processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


@atexit.register
def _kill_all() -> None:
    """Kill processes that a failed test has left: multiprocessing would wait for them, forever if one is stopped."""
    for process in multiprocessing.active_children():
        process.kill()


class ForkedProcess:
    """A process that calls a function and ends. It has the methods of subprocess.Popen that tests use."""

    def __init__(
        self, target: Callable[..., object], *arguments: Any, out: Path | None = None, errors: Path | None = None
    ) -> None:
        """Start it, in the root of the checkout and with our environment as it is now.

        target: a function of a module; it returns what sys.exit takes. arguments: what can be pickled. out: the file
        that stdout, and stderr unless errors is given, are appended to.
        """
        if out is not None:
            out.touch()
        arguments = (target, arguments, out, errors or out, dict(os.environ))
        self._process = fork_server().Process(target=_run, args=arguments)
        with ONE_AT_A_TIME:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        with ONE_AT_A_TIME:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; the exit code. Raises subprocess.TimeoutExpired."""
        wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(str(self._process), timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def __enter__(self) -> ForkedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()


def _run(
    target: Callable[..., Any],
    arguments: Sequence[Any],
    out: Path | None,
    errors: Path | None,
    environment: dict[str, str],
) -> None:
    for path, descriptor in ((out, 1), (errors, 2)):
        if path is not None:
            with path.open("ab") as file:
                os.dup2(file.fileno(), descriptor)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    code = target(*arguments)
    gc.collect()  # what complains when it is destroyed does it now: a forked process ends without destroying anything
    sys.exit(code)


def run_module(module: str, *arguments: str) -> object:
    """`python -m module arguments…`, for a ForkedProcess: the `main` of a module."""
    sys.argv = [module, *arguments]
    return importlib.import_module(module).main()
