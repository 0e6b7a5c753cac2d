"""The ZooKeeper and the `ottla registry` of the tests: one process each for the whole run, started at its first use.

A test gets a chroot of its own on it, and breaks connections with a proxy; who breaks servers starts an ensemble.
"""

import asyncio
import atexit
import contextlib
import functools
import itertools
import os
from concurrent.futures import ThreadPoolExecutor

from ottla.cluster.local_registry import LocalRegistry
from ottla.zookeeper.server import ZooKeeperEnsemble
from registry.zookeeper.address import ZooKeeperAddress
from support.deadlines import DEADLINE_S
from support.tcp_proxy import TcpProxy

_numbers = itertools.count(1)


@functools.cache
def shared_zookeeper():
    """Return the shared ZooKeeper; it is ready."""
    return started(ZooKeeperEnsemble(sync=False))


@functools.cache
def shared_registry():
    """Return an `ottla registry` for all tests; it is ready."""
    return started(LocalRegistry())


def started(servers):
    """Start servers until the end of the process, and return them; they are ready."""

    async def start():
        await servers.start()
        await servers.wait()

    atexit.register(servers.close)
    with ThreadPoolExecutor(1) as thread:  # the caller may be in an event loop
        thread.submit(asyncio.run, start()).result()
    return servers


@contextlib.asynccontextmanager
async def heard(registry, state):
    """Wait at the end of the block until the registry has told of a state, counted from its beginning."""
    event = asyncio.Event()
    listener = registry.listen(lambda now: event.set() if now is state else None)
    try:
        yield
        async with asyncio.timeout(DEADLINE_S):
            await event.wait()
    finally:
        listener.cancel()


def new_chroot():
    """Return a path that no other test uses."""
    return f"/test-{os.getpid()}-{next(_numbers)}"


@contextlib.asynccontextmanager
async def proxied(connect):
    """A proxy to ZooKeeper that can be cut, and its `zookeeper.connect`."""
    address = ZooKeeperAddress.parse(connect)
    async with TcpProxy(*address.servers[0]) as proxy:
        yield proxy, f"127.0.0.1:{proxy.port}{address.chroot}"
