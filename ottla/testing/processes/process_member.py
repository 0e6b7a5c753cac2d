"""One broker of a cluster of processes: its runs, and the channel to the present one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.cluster.broker_child import BrokerChild
from ottla.testing.faults.errors import FaultError
from ottla.testing.member import MemberState
from ottla.testing.processes.channel import Channel, ChannelClosedError, Handle
from ottla.testing.processes.shared_openers import remove_links

STOP_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.005


class ControlledChild(BrokerChild):
    """A broker process with a channel to this one."""

    def __init__(self, name: str, properties: Path, on_line: Callable[[str], None], directory: Path) -> None:
        """directory: shared by the brokers of the cluster."""
        super().__init__(name, [str(properties)], on_line)
        self.handle: Handle
        """Does what the process asks for; set before the start."""
        self.channel: Channel | None = None
        self._directory = directory
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See `BrokerChild`."""
        own, other = socket.socketpair()
        own.setblocking(False)
        self.channel = Channel(own, self.handle)
        try:
            self._reading = await self.channel.open()
            with other:
                module = f"{__package__}.controlled_broker"
                words = ["-m", module, str(other.fileno()), str(self._directory), *self.arguments]
                await self._start(words, [other.fileno()])
        except BaseException:
            self.channel.close()
            raise

    async def wait(self) -> None:
        """See `BrokerChild`. The channel has ended, too."""
        await super().wait()
        if self._reading is not None:
            await asyncio.wait([self._reading])


class ProcessMember:
    """See `ClusterMember`."""

    def __init__(self, broker_id: int, child: ControlledChild, log_dirs: Sequence[str], directory: Path) -> None:
        """directory: shared by the brokers of the cluster."""
        self.id = broker_id
        self.child = child
        self.log_dirs = list(log_dirs)
        self.state = MemberState.STOPPED
        self.failure: BaseException | None = None
        self.on_changed: Callable[[ProcessMember], None] = lambda member: None
        """Called when the process has ended by itself, and when the broker has been started again."""
        self.on_ended: Callable[[], None] = lambda: None
        """Called when the process has ended."""
        self.bootstrap_servers = ""
        """The clients' address, "host:port"; empty before the first start."""
        self._directory = directory
        self._watching: asyncio.Task[None] | None = None

    async def ask(self, **frame: Any) -> Any:
        """Ask the process. Raises FaultError."""
        if self.child.channel is None or self.state is MemberState.STOPPED:
            raise FaultError(f"broker={self.id}: the broker does not run")
        if self.state is MemberState.PAUSED:
            raise FaultError(f"broker={self.id}: the broker is paused")
        try:
            return await self.child.channel.ask(**frame)
        except ChannelClosedError:
            raise FaultError(f"broker={self.id}: the broker does not run") from None

    def tell(self, **frame: Any) -> None:
        """Tell the process something; one that is paused learns of it later."""
        if self.child.channel is not None:
            self.child.channel.tell(**frame)

    async def launch(self) -> None:
        """Start the process without waiting until the broker is ready. Raises OSError."""
        self.state = MemberState.STARTING
        try:
            await self.child.start()
        except BaseException:
            self.state = MemberState.STOPPED
            raise
        self._watching = asyncio.create_task(self._watch())

    def launched(self) -> None:
        """Say that the broker is ready."""
        self.bootstrap_servers = self.child.facts["listening"].partition("://")[2]
        self.state = MemberState.RUNNING

    async def start(self) -> None:
        """Start the broker again, and wait until it serves clients. Raises FaultError."""
        await self.launch()
        if not await self.child.wait_ready():
            await self._ended()
            raise FaultError(f"broker={self.id}: the broker ended {self.child.end}: {self.child.last_line}")
        self.failure = None
        self.launched()
        self.on_changed(self)

    async def stop(self) -> None:
        """Stop the broker cleanly."""
        self.state = MemberState.STOPPING
        await self.child.stop(STOP_TIMEOUT_S)
        await self._ended()

    async def kill(self) -> None:
        """End the process by SIGKILL."""
        self.state = MemberState.STOPPING
        self.child.kill()
        await self._ended()

    async def pause(self) -> None:
        """Send SIGSTOP, and wait until the process stands still."""
        self.state = MemberState.PAUSED
        self.child.pause()
        while self.child.is_running and not _stands_still(self.child.pid):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)

    async def resume(self) -> None:
        """Send SIGCONT."""
        self.child.resume()
        self.state = MemberState.RUNNING

    async def _ended(self) -> None:
        assert self._watching is not None
        await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        """Wait for the end of the process."""
        await self.child.wait()
        await asyncio.to_thread(remove_links, self._directory, self.id)
        by_itself = self.state in (MemberState.RUNNING, MemberState.PAUSED)
        self.state = MemberState.STOPPED
        self.on_ended()
        if by_itself:
            self.failure = RuntimeError(f"broker {self.id} has ended {self.child.end}")
            self.on_changed(self)


def _stands_still(pid: int | None) -> bool:
    """Whether a child process is stopped by a signal."""
    return pid is not None and os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is not None
