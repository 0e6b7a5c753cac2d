"""A client of the workload as a process: forked from a server that has imported everything, so it costs little."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext

from support.transfers.client import STUCK, Client, Plan, run_client

JOIN_S = 60.0
LIBRDKAFKA_ENDS = (STUCK, -signal.SIGABRT, -signal.SIGSEGV)
"""It hangs, or breaks its heap ("double free", now and then when AddOffsetsToTxn is fenced): as good as a kill."""

_ONE_AT_A_TIME = threading.Lock()
"""Runs are threads, and starting a process looks after all others, too: of two threads that fetch an exit code at the
same time one gets 255 (popen_forkserver.Popen.poll)."""


def fork_server() -> ForkServerContext:
    """The one that all clients come from. Our own modules are not on its path (Python 3.11), and cost little."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["confluent_kafka", "uuid", "dataclasses"])
    return context


class ClientProcess:
    """One. Its plan's name is that of this process."""

    def __init__(self, kind: type[Client], plan: Plan) -> None:
        self.kind = kind
        self.plan = plan
        self.has_successor = False
        self._is_stopped = False
        self._process = fork_server().Process(target=run_client, args=(kind, plan), daemon=True)
        with _ONE_AT_A_TIME:
            self._process.start()

    @property
    def lives(self) -> bool:
        """Whether it runs."""
        with _ONE_AT_A_TIME:
            return self._process.is_alive()

    @property
    def needs_successor(self) -> bool:
        """Whether librdkafka has ended it, and nobody is in its place."""
        return not self.has_successor and self._exit_code() in LIBRDKAFKA_ENDS

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self._signal(signal.SIGKILL)
        self.join()

    def stop(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)
        self._is_stopped = True

    def resume(self) -> None:
        """SIGCONT."""
        if self._is_stopped:
            self._signal(signal.SIGCONT)
            self._is_stopped = False

    def _signal(self, number: int) -> None:
        with _ONE_AT_A_TIME:
            if self._process.is_alive() and self._process.pid is not None:
                os.kill(self._process.pid, number)

    def join(self) -> int | None:
        """Wait until it has ended by itself. Its exit code; None where it does not end."""
        wait([self._process.sentinel], JOIN_S)
        return self._exit_code()

    def _exit_code(self) -> int | None:
        with _ONE_AT_A_TIME:
            return self._process.exitcode
