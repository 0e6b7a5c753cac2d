"""A simulated process: its tasks, and whether it runs.

Everything that a process does on the loop carries the process in its context (`contextvars`): tasks and callbacks
inherit it from the task that creates them, and the loop checks it before it runs one. The callbacks of a paused process
(SIGSTOP) are kept; those of a dead process are dropped, and no `finally` runs, as with SIGKILL.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from enum import Enum

CURRENT: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar("process", default=None)

NOBODY = contextvars.Context()
"""For what belongs to no process: the network, the registry's server, the course of the simulation."""


class ProcessDiedError(BaseException):
    """The process was killed within an operation of its own; what it still does has no effect."""


class ProcessState(Enum):
    """The state of a process."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class SimulatedProcess:
    """One process on a host; `context` is for whatever is to run in it."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.state = ProcessState.RUNNING
        self.held: deque[asyncio.Handle] = deque()
        self.context = contextvars.Context()
        self.context.run(CURRENT.set, self)
        self._remains: set[asyncio.Task[object]] = set()

    @property
    def is_dead(self) -> bool:
        """True from `kill` on."""
        return self.state is ProcessState.DEAD

    def pause(self) -> None:
        """Pause the process; events are kept until it resumes."""
        assert self.state is ProcessState.RUNNING
        self.state = ProcessState.PAUSED

    def kill(self) -> None:
        """Kill the process at once."""
        self.state = ProcessState.DEAD
        self.held.clear()
        # Kept, because a coroutine that is thrown away runs its `finally` blocks.
        self._remains = asyncio.all_tasks(asyncio.get_running_loop())

    def __repr__(self) -> str:
        return f"<{self.host} {self.state.value}>"
