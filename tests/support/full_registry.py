"""The embedded registry on a small disk that is filled to the last byte, for `support.small_disk`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from registry.embedded.reserve import RESERVE_BYTES
from registry.embedded.session import EmbeddedRegistry
from registry.embedded.store import EmbeddedStore
from registry.errors import RegistryFullError
from registry.interface import Create, Delete, Set
from support.polling import until

DISK_BYTES = 6 << 20
TOPICS = 300
PARTITIONS = 4


class Filler:
    """A file that takes all the space that it can get."""

    def __init__(self, disk: Path) -> None:
        self.path = disk / "filler"

    def fill(self) -> None:
        """Write until the disk is full."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            while True:
                os.write(descriptor, bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def filling(self, pause_s: float) -> Iterator[None]:
        """Take what becomes free, again and again, as producers do that retry."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(pause_s):
                self.fill()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextlib.asynccontextmanager
async def opened(disk: Path) -> AsyncIterator[tuple[EmbeddedStore, EmbeddedRegistry]]:
    store = await EmbeddedStore.open(disk / "registry.sqlite")
    try:
        registry = store.session()
        await registry.start()
        yield store, registry
    finally:
        await store.close()


async def prepare(registry: EmbeddedRegistry) -> None:
    for path in ("/admin/delete_topics", "/brokers/topics", "/brokers/ids", "/config/topics", "/config/changes"):
        await registry.create(path, make_parents=True)
    await registry.create("/controller_epoch", b"1")
    nodes = []
    for number in range(TOPICS):
        topic = f"/brokers/topics/t{number}"
        nodes += [Create(f"/config/topics/t{number}", b"{}"), Create(topic, bytes(50)), Create(f"{topic}/partitions")]
        for partition in range(PARTITIONS):
            path = f"{topic}/partitions/{partition}"
            nodes += [Create(path), Create(f"{path}/state", bytes(80))]
    await registry.multi(nodes)


async def delete_topic(registry: EmbeddedRegistry, name: str) -> None:
    """Delete a topic's znodes in the order of the controller: one transaction after the other."""
    await registry.create(f"/admin/delete_topics/{name}")
    topic = f"/brokers/topics/{name}"
    for partition in range(PARTITIONS):
        path = f"{topic}/partitions/{partition}"
        await registry.set(f"{path}/state", bytes(81))
        await registry.delete(f"{path}/state")
        await registry.delete(path)
    await registry.delete(f"{topic}/partitions")
    await registry.multi([Delete(path) for path in (topic, f"/config/topics/{name}", f"/admin/delete_topics/{name}")])


async def refused(registry: EmbeddedRegistry) -> None:
    """Try a new topic, and more partitions of an existing one."""
    for write in (
        registry.create("/brokers/topics/new", bytes(50)),
        registry.set("/brokers/topics/t0", bytes(60)),
        registry.multi([Create("/config/topics/new"), Create("/brokers/topics/new")]),
    ):
        with pytest.raises(RegistryFullError, match="the disk is full"):
            await write


async def until_full(store: EmbeddedStore, registry: EmbeddedRegistry) -> None:
    """Create nodes until the store finds that the disk is full: SQLite has some space left in its own files."""
    with contextlib.suppress(RegistryFullError):
        for number in range(10_000):
            await registry.create(f"/brokers/topics/more{number}", bytes(500))
    assert store.full is not None


async def delete_everything(disk: Path) -> None:
    """All topics are deleted while the disk stays full, and while others take the space that becomes free."""
    filler = Filler(disk)
    async with opened(disk) as (store, registry):
        await prepare(registry)
        filler.fill()
        await until_full(store, registry)
        with filler.filling(0.001):
            for number in range(1, TOPICS):
                await delete_topic(registry, f"t{number}")
                if number % 50 == 1:
                    await refused(registry)
        assert store.full is not None
    async with opened(disk) as (store, registry):
        names = await registry.children("/brokers/topics")
        assert [name for name in names if not name.startswith("more")] == ["t0"]
        assert await registry.children("/config/topics") == ["t0"]
        assert await registry.children("/admin/delete_topics") == []


async def start_and_stop(disk: Path) -> None:
    """A registry is opened on a full disk, with what a broker writes at its start; then there is room again."""
    filler = Filler(disk)
    reserve = disk / "registry.sqlite-reserve"
    async with opened(disk) as (_, registry):
        await prepare(registry)
        assert reserve.stat().st_blocks * 512 == RESERVE_BYTES
    filler.fill()
    for epoch in range(20):
        async with opened(disk) as (store, registry):
            assert store.full is not None  # before the first write
            filler.fill()
            await registry.multi([Create("/brokers/ids/0", None, ephemeral=True), Set("/brokers/ids/0", bytes(200))])
            await registry.set("/controller_epoch", b"%d" % (epoch + 10))
            await registry.set("/brokers/topics/t1/partitions/0/state", b"%080d" % epoch)
            await registry.set("/config/topics/t1", b'{"retention.ms": "1000"}')
            await registry.create("/config/changes/config_change_", b"t1", sequence=True)
            await refused(registry)
        filler.fill()
    async with opened(disk) as (store, registry):
        filler.path.unlink()
        await until(lambda: store.full is None, "the disk has room")
        assert reserve.stat().st_blocks * 512 == RESERVE_BYTES
        await registry.create("/brokers/topics/new", bytes(50))


async def killed(disk: Path) -> None:
    """A process that deletes topics on the full disk is killed and started: what it has deleted stays deleted."""
    filler = Filler(disk)
    async with opened(disk) as (store, registry):
        await prepare(registry)
        filler.fill()
        await until_full(store, registry)
    deleted: list[str] = []
    for _ in range(4):
        filler.fill()
        deleted += deleted_until_killed(disk)
    async with opened(disk) as (store, registry):
        assert store.full is not None
        assert not set(deleted) & {*await registry.children("/brokers/topics")}
        await delete_topic(registry, "t1")


def deleted_until_killed(disk: Path) -> list[str]:
    """Run `delete_all` in a process and kill it after some topics; return the topics that it has deleted."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; from support.full_registry import delete_all; delete_all()"
    with subprocess.Popen([sys.executable, "-c", code, str(disk)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(15)]
        process.kill()
        lines += process.stdout.readlines()
    assert lines[14], "the process has ended by itself"
    return [line.strip() for line in lines if line.endswith("\n")]


def delete_all() -> None:
    """Delete all topics but t1, and print their names: in a process that is killed meanwhile."""

    async def run() -> None:
        async with opened(Path(sys.argv[1])) as (_, registry):
            begun = await registry.children("/admin/delete_topics")
            for name in await registry.children("/config/topics"):
                if name != "t1" and name not in begun:
                    await delete_topic(registry, name)
                    print(name, flush=True)

    asyncio.run(run())


async def without_reserve(disk: Path) -> None:
    """The reserve was lost on the full disk, as after a crash before it was restored: the registry opens."""
    filler = Filler(disk)
    async with opened(disk) as (store, registry):
        await prepare(registry)
    (disk / "registry.sqlite-reserve").unlink()
    filler.fill()
    async with opened(disk) as (store, registry):
        assert store.full is not None
        with pytest.raises(RegistryFullError):
            await registry.create("/admin/delete_topics/t1")
        filler.path.unlink()
        await delete_topic(registry, "t1")
        await until(lambda: store.full is None, "the disk has room")


SCENARIOS: dict[str, Callable[[Path], Awaitable[None]]] = {
    "delete": delete_everything,
    "start": start_and_stop,
    "killed": killed,
    "lost": without_reserve,
}


def main(disk: Path, scenario: str) -> None:
    """Run a scenario on this disk."""

    async def run() -> None:
        await SCENARIOS[scenario](disk)

    asyncio.run(run())
