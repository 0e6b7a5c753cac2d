"""A client of the workload as a process."""

from __future__ import annotations

import signal
import subprocess

from support.fork_server import ForkedProcess
from support.transfers.client import SHOW_STACKS, STUCK, Client, Plan, run_client

JOIN_S = 60.0
STACKS_S = 2.0
LIBRDKAFKA_ENDS = (STUCK, -signal.SIGALRM, -signal.SIGABRT, -signal.SIGSEGV)
"""It hangs, or breaks its heap ("double free", now and then when AddOffsetsToTxn is fenced): as good as a kill."""


class ClientProcess:
    """One process. It has the name of its plan."""

    def __init__(self, kind: type[Client], plan: Plan) -> None:
        self.kind = kind
        self.plan = plan
        self.has_successor = False
        self._is_stopped = False
        self._process = ForkedProcess(run_client, kind, plan)

    @property
    def lives(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    @property
    def needs_successor(self) -> bool:
        """Whether librdkafka has ended it and it has no successor."""
        return not self.has_successor and self._process.poll() in LIBRDKAFKA_ENDS

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self._process.send_signal(signal.SIGKILL)
        self.join()

    def stop(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)
        self._is_stopped = True

    def resume(self) -> None:
        """SIGCONT."""
        if self._is_stopped:
            self._process.send_signal(signal.SIGCONT)
            self._is_stopped = False

    def join(self) -> int | None:
        """Wait until it has ended by itself. Return its exit code.

        None if it does not end; then it has written the stacks of its threads to its output.
        """
        for timeout_s in (JOIN_S, STACKS_S):
            try:
                return self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._process.send_signal(SHOW_STACKS)
        return None
