"""What the registry's contract tests run against.

A backend makes sessions on one shared tree and can break them. The tests know nothing else of it, so that
real ZooKeeper can be put in as another parameter of `registry_backend`.
"""

import asyncio
import time

import pytest

from registry.embedded import EmbeddedStore
from registry.embedded_file import RegistryFile


class EmbeddedBackend:
    """Sessions on one embedded store."""

    def __init__(self, store):
        self.store = store
        self.registries = []

    def session(self, timeout_ms=18_000):
        """Return a registry that has not been started."""
        registry = self.store.session(timeout_ms)
        self.registries.append(registry)
        return registry

    async def connect(self, timeout_ms=18_000):
        """Return a started registry."""
        registry = self.session(timeout_ms)
        await registry.start()
        return registry

    async def expire(self, registry):
        """End a registry's session from the outside; the registry is told."""
        await registry.expire()

    def disconnect(self, registry):
        registry.disconnect()

    def reconnect(self, registry):
        registry.reconnect()

    async def close(self):
        for registry in self.registries:
            await registry.close()
        await self.store.close()


@pytest.fixture(params=["embedded-file", "embedded-memory"])
async def registry_backend(request, tmp_path):
    path = tmp_path / "registry.sqlite" if request.param == "embedded-file" else None
    backend = EmbeddedBackend(await EmbeddedStore.open(path))
    yield backend
    assert backend.store._failure is None
    await backend.close()


@pytest.fixture
async def registry(registry_backend):
    return await registry_backend.connect()


@pytest.fixture
async def other(registry_backend):
    """A second session on the same tree."""
    return await registry_backend.connect()


class Calls:
    """A watch callback that counts, and can be waited for."""

    def __init__(self):
        self.count = 0
        self._event = asyncio.Event()

    def __call__(self, *_):
        self.count += 1
        self._event.set()

    async def wait(self):
        """Wait for a call since the last wait."""
        async with asyncio.timeout(10):
            await self._event.wait()
        self._event.clear()


@pytest.fixture
def calls():
    """Make counting callbacks."""
    return Calls


@pytest.fixture
def eventually():
    """Wait until an asynchronous question is answered with yes."""

    async def wait(question):
        deadline = time.monotonic() + 10
        while not await question():
            assert time.monotonic() < deadline, "it did not come true"
            await asyncio.sleep(0.005)

    return wait


@pytest.fixture
def open_file():
    """Open a registry's file without a store; closed after the test."""
    files = []

    def open_(path):
        file, tree = RegistryFile.open(path, 0)
        files.append(file)
        return file, tree

    yield open_
    for file in files:
        file.close()
