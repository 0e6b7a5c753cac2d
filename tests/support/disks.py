"""A broker in this process with several log directories, whose disks fail on request of the test."""

from __future__ import annotations

import contextlib
import errno

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from registry.znodes.topics import PartitionStateZnode
from support.broker import settings
from support.faulty_disk import FaultyFileSystem
from support.polling import until
from support.wire import append, batch, create_topic, wire_client

STORAGE_ERROR = 56


class Disks:
    """A broker with the log directories a, b and c, a registry in memory that outlives it, and a client."""

    def __init__(self, tmp_path, store):
        self.paths = [tmp_path / name for name in "abc"]
        self.fs = FaultyFileSystem()
        self.store = store
        self.overrides = {"auto_create_topics_enable": "false"}

    @contextlib.asynccontextmanager
    async def running(self):
        config = BrokerConfig.load(None, settings(",".join(map(str, self.paths)), **self.overrides))
        async with (
            Broker(config, fs=self.fs, store=self.store) as self.broker,
            wire_client(self.broker.bootstrap_servers) as self.client,
        ):
            yield self

    @property
    def logs(self):
        return self.broker.services.logs

    def directory_of(self, topic, partition=0):
        return self.logs.get(topic, partition).directory.parent

    def state(self, topic, partition=0):
        path = PartitionStateZnode.path(topic, partition)
        return PartitionStateZnode.decode(self.store.tree.get(path).data, path)

    async def fail(self, path, number=errno.EIO):
        """Let everything in this directory fail from now on; a write detects it."""
        self.fs.broken[path] = number
        topic, partition = next(key for key, log in self.logs.logs.items() if log.directory.parent == path)
        assert (await append(self.client, topic, batch(b"lost"), partition)).error_code == STORAGE_ERROR
        await until(lambda: not self.logs.dirs.of(str(path)).is_online, "the directory is offline")


async def three(disks):
    """Create partitions 0, 1 and 2 of t, one in each directory."""
    await create_topic(disks.client, "t", 3)
    for partition in range(3):
        assert (await append(disks.client, "t", batch(b"v%d" % partition), partition)).error_code == 0
    return {disks.directory_of("t", partition): partition for partition in range(3)}
