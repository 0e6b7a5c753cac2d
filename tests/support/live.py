"""A broker in this process whose clock and disk the test controls, and a client that sends plain requests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.wire.connection import Connection
from client.wire.network import Network
from protocol.compression import CompressionType
from protocol.message import Message
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from protocol.record_batch_builder import RecordBatchBuilder
from registry.embedded.store import EmbeddedStore
from registry.znodes.configs import ConfigChangesZnode
from storage.compaction.compactor import Compactor, ProcessCompactor
from storage.file_system import FileSystem
from storage.log.log import Log
from support.broker import settings
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.polling import until
from support.wire import until_led

START_MS = 1_700_000_000_000
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


class Clock:
    """A wall clock that advances only when the test moves it."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


class WatchedFileSystem(FileSystem):
    """Notes the files that are to be forced to disk, by name (and does not wait for that), and the blocking work.

    `most_running` says how many pieces of blocking work have run at the same time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.running = 0
        self.most_running = 0

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        self.synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)

    async def run_blocking(self, work: Callable[[], Any]) -> Any:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return await super().run_blocking(work)
        finally:
            self.running -= 1


class Live:
    """A running broker and one connection to it."""

    def __init__(self, broker: Broker, clock: Clock, fs: WatchedFileSystem, connection: Connection) -> None:
        self.broker = broker
        self.clock = clock
        self.fs = fs
        self.connection = connection

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """The answer to a request."""
        return await self.connection.request(request, version)

    def log(self, topic: str, partition: int = 0) -> Log:
        """A partition's log, as the broker has it."""
        assert self.broker.services is not None
        log = self.broker.services.logs.get(topic, partition)
        assert log is not None
        return log

    async def try_create(self, name: str, partitions: int = 1, factor: int = 1, **overrides: str) -> Any:
        """Create a topic (overrides have _ for each dot); the result, which may be an error."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=[],
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in overrides.items()],
        )
        response = await self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=DEADLINE_MS, validate_only=False))
        return response.topics[0]

    async def create(self, name: str, partitions: int = 1, **overrides: str) -> None:
        """Create a topic."""
        result = await self.try_create(name, partitions, **overrides)
        assert result.error_code == 0, result

    async def produce(
        self, topic: str, records: Any, partition: int = 0, *, acks: int = -1, version: int | None = None
    ) -> PartitionProduceResponse:
        """Produce one batch (bytes, or a list of values) and return the partition's answer."""
        if not isinstance(records, bytes | bytearray):
            records = batch(records, timestamp=self.clock.now_ms)
        data = PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            acks=acks, timeout_ms=DEADLINE_MS, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        response = await self.ask(request, version)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    async def fetch(
        self, topic: str, offset: int = 0, *, version: int = 11, max_bytes: int = 1 << 25, session_epoch: int = -1
    ) -> FetchResponse:
        """Fetch the existing records of partition 0."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 24)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        response: FetchResponse = await self.ask(request, version)
        return response

    async def metadata(self, *topics: str, create: bool = True) -> MetadataResponse:
        """Metadata of these topics."""
        wanted = [MetadataRequestTopic(name=topic) for topic in topics]
        response: MetadataResponse = await self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=create), 9)
        return response

    async def alter(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> int:
        """IncrementalAlterConfigs of one resource: set, or delete where None. Returns the error code.

        The broker answers when a change is written; this waits until it has read it, too.
        """
        configs = [
            AlterableConfig(name=key, config_operation=1 if text is None else 0, value=text)
            for key, text in changes.items()
        ]
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        response = await self.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        await until(self._has_read_settings, "the broker has read its dynamic settings")
        return int(response.responses[0].error_code)

    async def _has_read_settings(self) -> bool:
        assert self.broker.services is not None
        configs = self.broker.services.configs
        changes = await configs._registry.children(ConfigChangesZnode.TEMPLATE)
        return configs._notifications._seen[ConfigChangesZnode.TEMPLATE] >= max(changes, default="")

    async def set_dynamic(self, **changes: str | None) -> None:
        """Change settings of all brokers at runtime (names with _ for each dot)."""
        named = {name.replace("_", "."): text for name, text in changes.items()}
        assert await self.alter(BROKER_RESOURCE, "", named) == 0

    async def another(self, client_id: str = "another") -> Connection:
        """A further connection, with nothing sent on it."""
        host, _, port = self.broker.bootstrap_servers.rpartition(":")
        return await Connection.open(host, int(port), client_id=client_id, request_timeout_s=DEADLINE_S)


def batch(
    values: Any, *, timestamp: int = START_MS, codec: CompressionType = CompressionType.NONE, **producer: int
) -> bytearray:
    """A batch of records: each of `values` is a value, or a (key, value) pair."""
    builder = RecordBatchBuilder(0, codec, **producer)  # type: ignore[arg-type]
    for value in values:
        key, value = value if isinstance(value, tuple) else (None, value)
        builder.append(timestamp, key, value, ())
    return builder.build()


@contextlib.asynccontextmanager
async def live(
    log_dir: Path,
    overrides: Mapping[str, str] | None = None,
    *,
    clock: Clock | None = None,
    network: Network | None = None,
    restarts: bool = False,
    new_compactor: Callable[[], Compactor] = ProcessCompactor,
) -> AsyncIterator[Live]:
    """A broker with these settings (Kafka's names), its clock standing still, and a connection to it.

    Its registry is in memory and so gone with it, unless it `restarts`: that spares the waiting for fsync.
    """
    clock = clock or Clock()
    fs = WatchedFileSystem()
    named = settings(log_dir) | dict(overrides or {})
    for name in [name for name, text in named.items() if text == UNSET]:
        del named[name]
    config = BrokerConfig.load(None, named)
    store = None if restarts else await EmbeddedStore.open(now_ms=clock)
    async with Broker(config, fs=fs, now_ms=clock, network=network, store=store, new_compactor=new_compactor) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        async with await Connection.open(host, int(port), client_id="test", request_timeout_s=DEADLINE_S) as connection:
            await connection.negotiate()
            if restarts:
                await until_led(connection.request)
            yield Live(broker, clock, fs, connection)
    if store is not None:
        await store.close()


UNSET = "\0"
"""In `overrides`: leave this setting of `support.broker.settings` out."""
