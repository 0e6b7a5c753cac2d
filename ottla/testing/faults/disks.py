"""The verbs for disks: `fill_disk`, `fail_disk` and `slow_disk`.

What a broker does about a disk error is Kafka's: after EIO it takes the log directory offline, until the broker is
restarted, and a broker without a log directory ends. On a full disk, it refuses writes until there is room.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import CountedFault, Fault, option
from ottla.testing.faults.disk_files import DiskRule, Operation
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.scene import BrokerScene, ClusterScene
from ottla.testing.faults.verb import Applied
from ottla.testing.member import MemberState

_POLL_S: Final = 0.01
_BROKER: Final = "The id of the broker; without it, all brokers."
_LOG_DIR: Final = "The path of the log directory; without it, all that the broker has."


@dataclass(frozen=True, kw_only=True)
class FillDiskFault(Fault):
    """Let a disk be full: writes fail with ENOSPC. Healing gives room again."""

    broker: int | None = option(_BROKER, None)
    log_dir: str | None = option(_LOG_DIR, None)
    room_bytes: int = option("How many bytes can still be written before. Bytes that are removed do not count.", 0)

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        if self.room_bytes < 0:
            raise FaultError(f"room_bytes={self.room_bytes}: must be 0 or more")


@dataclass(frozen=True, kw_only=True)
class FailDiskFault(CountedFault):
    """Let the operations of a disk fail with an I/O error. The log directory is offline until a restart.

    Healing starts a broker again that has ended because it had no other log directory.
    """

    operation: Literal["read", "write", "fsync", "all"] = option("What fails.", "all")
    broker: int | None = option(_BROKER, None)
    log_dir: str | None = option(_LOG_DIR, None)


@dataclass(frozen=True, kw_only=True)
class SlowDiskFault(Fault):
    """Let each fsync, and each read, take longer. Writes go to the page cache, and stay fast."""

    delay_s: float = option("How many seconds longer.")
    broker: int | None = option(_BROKER, None)
    log_dir: str | None = option(_LOG_DIR, None)

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        if not self.delay_s > 0:
            raise FaultError(f"delay_s={self.delay_s:g}: must be above 0")


async def apply_fill_disk(scene: BrokerScene, description: FillDiskFault, fault: ActiveFault) -> Applied:
    """Let disks be full. Each log directory is a disk of its own."""
    rules = {
        broker_id: [DiskRule((path,), room=description.room_bytes, on_effect=_counted(fault)) for path in paths]
        for broker_id, paths in _local_directories(scene, description).items()
    }
    return _applied(scene, rules)


async def apply_fail_disk(scene: BrokerScene, description: FailDiskFault, fault: ActiveFault) -> Applied:
    """Let operations fail. `recover` is the second part of healing."""
    operations: dict[str, frozenset[Operation]] = {
        "read": frozenset({"read"}),
        "write": frozenset({"write"}),
        "fsync": frozenset({"fsync"}),
        "all": frozenset({"read", "write", "fsync"}),
    }
    rules = {
        broker_id: [
            DiskRule(
                tuple(paths),
                fails=operations[description.operation],
                take=fault.counter.take,
                on_effect=_noticed(fault),
            )
        ]
        for broker_id, paths in _local_directories(scene, description).items()
    }
    return _applied(scene, rules)


async def apply_slow_disk(scene: BrokerScene, description: SlowDiskFault, fault: ActiveFault) -> Applied:
    """Let disks be slow."""
    rules = {
        broker_id: [DiskRule(tuple(paths), delay_s=description.delay_s, on_effect=_counted(fault))]
        for broker_id, paths in _local_directories(scene, description).items()
    }
    return _applied(scene, rules)


def _applied(scene: BrokerScene, rules: dict[int, list[DiskRule]]) -> Applied:
    for broker_id, of_broker in rules.items():
        for rule in of_broker:
            scene.disks[broker_id].add(rule)

    async def heal() -> None:
        for broker_id, of_broker in rules.items():
            for rule in of_broker:
                scene.disks[broker_id].remove(rule)

    did: dict[str, Any] = {
        "log_dirs": [path for of_broker in rules.values() for one in of_broker for path in one.directories]
    }
    return Applied(did, heal)


async def recover(scene: ClusterScene, description: FailDiskFault) -> None:
    """Start the brokers again that have ended because no log directory was left."""
    for broker_id in brokers_with(scene, description):
        member = scene.member(broker_id)
        while member.state is MemberState.RUNNING and not await _has_log_dir(scene, broker_id):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        if member.state is MemberState.STOPPED and member.failure is not None:
            await member.start()


async def _has_log_dir(scene: ClusterScene, broker_id: int) -> bool:
    try:
        return bool(await scene.ask(broker_id, "has_log_dir"))
    except FaultError:  # the broker has just ended
        return False


def _counted(fault: ActiveFault) -> Callable[[], None]:
    """Return what counts an effect of the fault; it can be called in any thread."""

    def count() -> None:
        fault.counter.take()

    return count


def _noticed(fault: ActiveFault) -> Callable[[], None]:
    """Return what notices that the fault may be used up; it can be called in any thread."""
    loop = asyncio.get_running_loop()

    def notice() -> None:
        with contextlib.suppress(RuntimeError):  # the cluster has ended
            loop.call_soon_threadsafe(fault.check_over)

    return notice


def brokers_with(scene: ClusterScene, description: Any) -> list[int]:
    """Return the brokers with the log directories of a description. Raises FaultError."""
    ids = list(scene.members) if description.broker is None else [scene.member(description.broker).id]
    return list(_directories({one: scene.members[one].log_dirs for one in ids}, description.log_dir))


def _local_directories(scene: BrokerScene, description: Any) -> dict[int, list[str]]:
    ids = scene.chosen(description.broker)
    return _directories({one: scene.local[one].log_dirs for one in ids}, description.log_dir)


def _directories(log_dirs: dict[int, list[str]], log_dir: str | None) -> dict[int, list[str]]:
    """Return the absolute paths of the log directories that are meant, by broker. Raises FaultError."""
    every = {one: [os.path.abspath(path) for path in paths] for one, paths in log_dirs.items()}  # noqa: PTH100
    if log_dir is None:
        return every
    wanted = os.path.abspath(log_dir)  # noqa: PTH100 - paths are strings here
    found = {one: [wanted] for one, paths in every.items() if wanted in paths}
    if not found:
        known = ", ".join(path for paths in every.values() for path in paths)
        raise FaultError(f"log_dir={log_dir}: no broker has this log directory; there are {known}")
    return found
