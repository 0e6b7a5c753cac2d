"""The faults of a cluster of processes, and its control API.

The directory that the brokers share has the counters of faults, and says which connections are those of brokers.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ottla.testing.faults.control import Control
from ottla.testing.faults.counter import SharedCounter
from ottla.testing.faults.engine import Engine
from ottla.testing.processes.process_member import ControlledChild, ProcessMember
from ottla.testing.processes.process_scene import ProcessScene, remote_verbs, uses_file


class ProcessFaults:
    """The brokers of a cluster, which can have faults, from `__init__` to `close`."""

    def __init__(
        self, brokers: dict[int, Path], log_dirs: dict[int, Path], on_line: Callable[[str, str], None]
    ) -> None:
        """brokers: the properties of each broker by its id. on_line: called with the name and a line of its log."""
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-faults-"))
        self.members = [
            ProcessMember(
                broker_id,
                ControlledChild(f"broker-{broker_id}", path, partial(on_line, f"broker-{broker_id}"), self._directory),
                [str(log_dirs[broker_id])],
                self._directory,
            )
            for broker_id, path in brokers.items()
        ]
        self._scene = ProcessScene(self.members, self._directory)
        self.engine = Engine(
            self._scene,
            remote_verbs(),
            new_counter=lambda fault_id, count: SharedCounter(uses_file(self._directory, fault_id), count),
        )
        self.control = Control(self._scene, self.engine)

    async def end_faults(self) -> None:
        """Serve the control API no more, and end the faults: the brokers are about to stop."""
        await self.control.close()
        self.engine.forget_all()
        self._scene.remove_all()

    def close(self) -> None:
        """Remove the directory: no broker runs any more."""
        shutil.rmtree(self._directory, ignore_errors=True)
