"""A session with a cluster's registry for one command: ZooKeeper, or the registry file of a stopped broker."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from broker.cluster.registry_access import REGISTRY_FILE
from ottla.command_line import variables
from ottla.command_line.failure import CommandError, suggest
from ottla.zookeeper.security import zookeeper_security
from registry.embedded.store import EmbeddedStore
from registry.errors import NoNodeError
from registry.interface import Registry
from registry.paths import name_of, parent_of
from registry.zookeeper.address import ZooKeeperAddress

DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
_CONNECTION_TIMEOUT_MS = 5_000
_SESSION_TIMEOUT_MS = 10_000

Address = Annotated[
    str,
    typer.Option(
        "--zookeeper",
        "-z",
        envvar="OTTLA_ZOOKEEPER",
        metavar="HOST:PORT[/CHROOT]",
        help="As in zookeeper.connect; separate several hosts with commas.",
    ),
]
ZooKeeperConfig = Annotated[
    Path | None,
    typer.Option(
        "--zookeeper-config",
        "--zk-tls-config-file",
        envvar=variables.ZOOKEEPER_CONFIG,
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Properties file with zookeeper.ssl.* and ottla.zookeeper.sasl.*, such as that of a broker.",
    ),
]


@contextlib.asynccontextmanager
async def opened(
    zookeeper: str, log_dir: Path | None = None, *, make_chroot: bool = False, config: Path | None = None
) -> AsyncIterator[Registry]:
    """Open and start a registry: ZooKeeper, or the embedded registry in `log_dir`.

    config: the file with the settings of security towards ZooKeeper; KAFKA_OPTS is read, too.

    Raises CommandError if the body uses a znode that does not exist; the message names similar znodes.
    """
    registry: Registry
    async with contextlib.AsyncExitStack() as stack:
        if log_dir is not None:
            file = log_dir / REGISTRY_FILE
            if not file.is_file():
                raise CommandError(f"{log_dir} has no {REGISTRY_FILE}: its broker uses another registry")
            store = await EmbeddedStore.open(file, keep_sessions=True)  # those of `ottla registry` are not ours to end
            stack.push_async_callback(store.close)
            registry = store.session()
        else:
            from registry.zookeeper.registry import ZooKeeperRegistry  # kazoo takes 16 ms; few commands need it

            registry = ZooKeeperRegistry(
                ZooKeeperAddress.parse(zookeeper),
                _SESSION_TIMEOUT_MS,
                connection_timeout_ms=_CONNECTION_TIMEOUT_MS,
                make_chroot=make_chroot,
                security=zookeeper_security(config),
            )
        stack.push_async_callback(registry.close)
        await registry.start()
        try:
            yield registry
        except NoNodeError as error:
            raise CommandError(await _missing(registry, error.path or "")) from None


async def _missing(registry: Registry, path: str) -> str:
    """Return the message for a znode that does not exist: the first missing znode of its path, and similar names."""
    if path == "/":
        return "the chroot does not exist"
    parent = parent_of(path)
    try:
        near = suggest(name_of(path), await registry.children(parent))
    except NoNodeError:
        return await _missing(registry, parent)
    return f"there is no znode {path}{near}"
