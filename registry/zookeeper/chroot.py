"""Creation of the chroot: the root of Kafka's tree on a shared ZooKeeper."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from registry.errors import ConnectionLossError, NodeExistsError
from registry.zookeeper.errors import translated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kazoo.client import KazooClient

logger = logging.getLogger(__name__)


async def make_chroot(client: KazooClient, chroot: str, acl: Callable[[str], Sequence[Any]]) -> None:
    """Create the chroot and its parents, as Kafka does; `acl` returns the ACL of a path. Raises RegistryError."""
    if not chroot:
        return
    names = chroot[1:].split("/")
    for depth in range(1, len(names) + 1):
        path = "/" + "/".join(names[:depth])
        while True:
            try:
                if await _answer(client.exists_async(path), path) is None:
                    await _answer(client.create_async(path, None, acl=acl(path)), path)
                    logger.info("created %s on ZooKeeper", path)
            except ConnectionLossError:
                continue
            except NodeExistsError:  # created by another client meanwhile
                pass
            break


async def _answer(result: Any, path: str) -> Any:
    """Wait for one of kazoo's results. Raises RegistryError."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answered(result: Any) -> None:
        if future.done():
            return
        try:
            future.set_result(result.get_nowait())
        except Exception as problem:
            future.set_exception(translated(problem, path))

    result.rawlink(answered)
    return await future
