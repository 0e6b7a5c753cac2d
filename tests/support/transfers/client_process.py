"""A client of the workload as a process: forked from a server that has imported everything, so it costs little."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.context import ForkServerContext

from support.transfers.client import STUCK, Client, Plan, run_client

JOIN_S = 60.0
LIBRDKAFKA_ENDS = (STUCK, -signal.SIGABRT, -signal.SIGSEGV)
"""It hangs, or breaks its heap ("double free", now and then when AddOffsetsToTxn is fenced): as good as a kill."""


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
        self._process.start()

    @property
    def lives(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    @property
    def needs_successor(self) -> bool:
        """Whether librdkafka has ended it, and nobody is in its place."""
        return self._process.exitcode in LIBRDKAFKA_ENDS and not self.has_successor

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self._process.kill()
        self._process.join(JOIN_S)

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
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def join(self) -> int | None:
        """Wait until it has ended by itself. Its exit code; None where it does not end."""
        self._process.join(JOIN_S)
        return self._process.exitcode
