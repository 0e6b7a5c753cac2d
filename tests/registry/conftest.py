"""What the registry's contract tests run against.

A backend makes sessions on one shared tree and can break them. The tests know nothing else of it.
"""

import asyncio
import functools
from types import SimpleNamespace

import pytest

from registry.embedded.file import RegistryFile
from registry.embedded.store import EmbeddedStore
from registry.interface import ConnectionState
from registry.server.server import RegistryServer
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.session import end_session
from support.deadlines import DEADLINE_S
from support.polling import until
from support.tcp_proxy import TcpProxy
from support.zookeeper import heard, new_chroot, shared_registry, shared_zookeeper


class EmbeddedBackend:
    """Sessions on one embedded store."""

    def __init__(self, store):
        self.store = store
        self.registries = []

    async def session(self, timeout_ms=18_000):
        """Return a registry that has not been started."""
        registry = self.store.session(timeout_ms)
        self.registries.append(registry)
        return registry

    async def connect(self, timeout_ms=18_000):
        """Return a started registry."""
        registry = await self.session(timeout_ms)
        await registry.start()
        return registry

    async def expire(self, registry):
        """End a registry's session from the outside; the registry is told."""
        await registry.expire()

    async def disconnect(self, registry):
        registry.disconnect()

    async def reconnect(self, registry):
        registry.reconnect()

    async def close(self):
        assert self.store._failure is None
        for registry in self.registries:
            await registry.close()
        await self.store.close()


class ZooKeeperBackend:
    """Sessions on a real ZooKeeper, each through a proxy of its own, all in one chroot."""

    def __init__(self, ensemble, chroot=None):
        self.ensemble = ensemble
        self.chroot = new_chroot() if chroot is None else chroot
        self.proxies = {}

    async def session(self, timeout_ms=18_000, **options):
        server = self.ensemble.servers[0]
        proxy = await TcpProxy("127.0.0.1", server.port).start()
        address = ZooKeeperAddress.parse(f"127.0.0.1:{proxy.port}{self.chroot}")
        registry = ZooKeeperRegistry(address, max(timeout_ms, 1_000), connection_timeout_ms=30_000, **options)
        self.proxies[registry] = proxy
        return registry

    async def connect(self, timeout_ms=18_000, **options):
        registry = await self.session(timeout_ms, **options)
        await registry.start()
        return registry

    async def expire(self, registry):
        address = ZooKeeperAddress.parse(self.ensemble.connect)
        async with heard(registry, ConnectionState.EXPIRED):
            assert await end_session(address, registry.credentials, 10_000)

    async def disconnect(self, registry):
        async with heard(registry, ConnectionState.SUSPENDED):
            self.proxies[registry].cut()

    async def reconnect(self, registry):
        await self.proxies[registry].heal()

    async def close(self):
        for registry, proxy in self.proxies.items():
            try:
                await registry.close()
            finally:
                await proxy.close()


class ServerBackend(ZooKeeperBackend):
    """Sessions on a server of the embedded registry, over ZooKeeper's protocol as with a ZooKeeper."""

    def __init__(self, server):
        self.server = server
        ensemble = SimpleNamespace(servers=[server], connect=f"127.0.0.1:{server.port}")
        super().__init__(ensemble, chroot="")

    async def close(self):
        await super().close()
        await self.server.close()
        await self.server.store.close()


@pytest.fixture(params=["embedded-file", "embedded-memory", "server", "zookeeper"])
async def registry_backend(request, tmp_path):
    if request.param == "zookeeper":
        backend = ZooKeeperBackend(shared_zookeeper())
    elif request.param == "server":
        server = RegistryServer(await EmbeddedStore.open())
        await server.start()
        backend = ServerBackend(server)
    else:
        path = tmp_path / "registry.sqlite" if request.param == "embedded-file" else None
        backend = EmbeddedBackend(await EmbeddedStore.open(path))
    yield backend
    await backend.close()


@pytest.fixture(params=[shared_zookeeper, shared_registry], ids=["zookeeper", "registry"])
async def zookeeper_backend(request):
    """For tests of what only ZooKeeper's protocol has."""
    backend = ZooKeeperBackend(request.param())
    yield backend
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
        async with asyncio.timeout(DEADLINE_S):
            await self._event.wait()
        self._event.clear()


@pytest.fixture
def calls():
    """Make counting callbacks."""
    return Calls


@pytest.fixture
def eventually():
    """Wait until an asynchronous question is answered with yes."""

    return functools.partial(until, what="it comes true")


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
