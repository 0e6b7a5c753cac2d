"""The verbs `corrupt` and `truncate`: damage in the file of one replica's log.

Brokers do not look at the records that they send to consumers, so a damaged batch reaches them: a client that checks
CRCs (`check.crcs`) reports it. A follower does not append it. Recovery, at the start after a crash, cuts the log off
before the first batch that is damaged.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import Description, Fault, option
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.scene import ClusterScene
from ottla.testing.faults.verb import Applied
from ottla.testing.member import MemberState
from protocol.errors import CorruptRecordError
from storage.file_system import CachedFile, FileSystem
from storage.log.batch_scan import find_batch

_MAX_NAME_BYTES: Final = 255
"""The longest name of a directory."""


@dataclass(frozen=True, kw_only=True)
class CorruptFault(Fault):
    """Change the last byte of a batch in the log file of one replica. Healing restores it."""

    topic: str = option("The topic.")
    partition: int = option("The partition.", 0)
    offset: int = option("The offset of a record in the batch.", 0)
    broker: int = option("The id of the broker with the replica.")


@dataclass(frozen=True, kw_only=True)
class TruncateAction(Description):
    """Cut the log file of one replica off in the middle of a batch, as a power failure may. The broker must not run."""

    topic: str = option("The topic.")
    partition: int = option("The partition.", 0)
    offset: int = option("The offset of a record in the batch.", 0)
    broker: int = option("The id of the broker with the replica.")


class FoundBatch(NamedTuple):
    """Where a batch is."""

    path: Path
    """The segment file."""
    position: int
    size: int


async def apply_corrupt(scene: ClusterScene, description: CorruptFault, fault: ActiveFault) -> Applied:
    """Change a byte."""
    batch = await asyncio.to_thread(
        _find, scene.member(description.broker).log_dirs, description.topic, description.partition, description.offset
    )
    sound = await asyncio.to_thread(_read, batch)
    damaged = sound[:-1] + bytes([sound[-1] ^ 0xFF])
    await asyncio.to_thread(_replace, batch, sound, damaged)

    async def heal() -> None:
        await asyncio.to_thread(_replace, batch, damaged, sound)

    return Applied({"file": str(batch.path), "position": batch.position + batch.size - 1}, heal)


async def apply_truncate(scene: ClusterScene, description: TruncateAction, fault: ActiveFault) -> Applied:
    """Leave half of the batch in the file."""
    member = scene.member(description.broker)
    if member.state is not MemberState.STOPPED:
        raise FaultError(
            f"broker={description.broker}: the broker is {member.state.value}; it must be stopped or killed before,"
            " because a running broker keeps the end of its logs in memory"
        )
    batch = await asyncio.to_thread(
        _find, member.log_dirs, description.topic, description.partition, description.offset
    )
    size = batch.position + batch.size // 2
    await asyncio.to_thread(os.truncate, batch.path, size)
    return Applied({"file": str(batch.path), "size": size}, None)


def _find(log_dirs: list[str], topic: str, partition: int, offset: int) -> FoundBatch:
    """Return the batch with an offset. Raises FaultError."""
    name = f"{topic}-{partition}"
    is_name = "/" not in name and len(name.encode()) <= _MAX_NAME_BYTES
    folders = (Path(one) / name for one in log_dirs if is_name)
    folder = next((path for path in folders if path.is_dir()), None)
    if folder is None:
        raise FaultError(f"the broker has no replica of {name}")
    for path in sorted(folder.glob("*.log"), reverse=True):
        if int(path.stem) > offset:
            continue
        files = CachedFile(FileSystem(), str(path))
        try:
            found = find_batch(files, 0, path.stat().st_size, offset)
        except CorruptRecordError as error:
            raise FaultError(f"{path}: {error}") from None
        finally:
            files.release()
        if found is not None:
            return FoundBatch(path, *found)
    raise FaultError(f"offset={offset}: the replica of {name} has no batch with this offset")


def _read(batch: FoundBatch) -> bytes:
    with batch.path.open("rb") as file:
        file.seek(batch.position)
        return file.read(batch.size)


def _replace(batch: FoundBatch, old: bytes, new: bytes) -> None:
    """Replace the last byte of a batch. Do nothing if the file has something else there, or does not exist."""
    try:
        with batch.path.open("r+b", buffering=0) as file:
            if os.pread(file.fileno(), batch.size, batch.position) == old:
                os.pwrite(file.fileno(), new[-1:], batch.position + batch.size - 1)
    except FileNotFoundError:
        return
