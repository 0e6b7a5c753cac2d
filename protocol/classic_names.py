"""Names of settings of Kafka's brokers and clients from 0.7 to 3, and the current settings that replace them.

An unknown setting is refused, because ignoring it would silently change behaviour. If the name was a setting of an
earlier Kafka, or is a setting of another component, this table supplies the advice in the error message. (It is in
this package because all others may import it; it is not part of the wire protocol.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple


class Reader(Enum):
    """The component that reads a setting."""

    BROKER = "brokers"
    TOPIC = "topics"
    PRODUCER = "Producer"
    CONSUMER = "Consumer"
    ZOOKEEPER_CONSUMER = "ZooKeeperConsumer"
    ADMIN = "Admin"

    @property
    def is_client(self) -> bool:
        """Whether the settings are Python parameters, with underscores instead of dots."""
        return self not in (Reader.BROKER, Reader.TOPIC)

    def spell(self, name: str) -> str:
        """Return a setting's name in this reader's spelling."""
        return name.replace(".", "_") if self.is_client else name


class ClassicName(NamedTuple):
    """The name of a current or former setting of Kafka.

    `homes`: the components that read the setting today, and its names there, in Kafka's spelling. If it is empty, Kafka
    has removed the setting, or Ottla does not have its component; `hint` says why. `of`: the component that reads or
    once read this name; None means the readers in `homes`, or brokers if `homes` is empty.
    """

    name: str
    homes: Mapping[Reader, tuple[str, ...]]
    hint: str
    of: Reader | None


def _row(
    name: str,
    hint: str = "",
    *,
    broker: str = "",
    topic: str = "",
    producer: str = "",
    consumer: str = "",
    zookeeper: str = "",
    clients: str = "",
    of: Reader | None = None,
) -> ClassicName:
    """Return a row. zookeeper: the name for ZooKeeperConsumer. clients: the name for Producer, Consumer and Admin."""
    given = {
        Reader.BROKER: broker,
        Reader.TOPIC: topic,
        Reader.PRODUCER: producer or clients,
        Reader.CONSUMER: consumer or clients,
        Reader.ADMIN: clients,
        Reader.ZOOKEEPER_CONSUMER: zookeeper,
    }
    return ClassicName(name, {reader: tuple(names.split()) for reader, names in given.items() if names}, hint, of)


_GONE = "it is gone from Kafka"
_IN_BACKGROUND = "a Producer always sends in the background: await the result of send for each record, or do not"
_IN_BYTES = "the limit was a number of messages, now it is a number of bytes"
_CHUNKS_IN_BYTES = "the limit was a number of chunks, now it is a number of bytes"
_WHILE_USED = "a connection stays open while it is used"
_LONG_FETCH = "a broker holds a fetch until there is data"
_BEFORE_SEND = f"{_GONE}: transform records before send"
_AWAIT_SEND = f"{_GONE}: await what send returns"
_COORDINATED = "in a group of today the coordinator rebalances"
_FETCHES = "a broker's own limit for a fetch is fetch.max.bytes"
_IN_KAFKA = "a Consumer's offsets are always in Kafka"
_ONE_SOCKET = "the operating system sizes the buffers of a client's sockets"

_ROWS: Final = (
    # ---- brokers of 0.7
    _row("brokerid", broker="broker.id"),
    _row("hostname", broker="listeners advertised.listeners"),
    _row("port", broker="listeners", clients="bootstrap.servers", zookeeper="zookeeper.connect"),
    _row("num.threads", broker="num.io.threads num.network.threads"),
    _row("log.file.size", broker="log.segment.bytes", topic="segment.bytes"),
    _row("log.file.time.ms", broker="log.roll.ms", topic="segment.ms"),
    _row("log.retention.size", broker="log.retention.bytes", topic="retention.bytes"),
    _row("log.cleanup.interval.mins", broker="log.retention.check.interval.ms"),
    _row("log.flush.interval", broker="log.flush.interval.messages", topic="flush.messages"),
    _row("log.default.flush.interval.ms", broker="log.flush.interval.ms", topic="flush.ms"),
    _row("log.default.flush.scheduler.interval.ms", broker="log.flush.scheduler.interval.ms"),
    _row("topic.log.file.size", topic="segment.bytes"),
    _row("topic.log.file.time.ms", topic="segment.ms"),
    _row("topic.log.retention.hours", topic="retention.ms"),
    _row("topic.log.retention.size", topic="retention.bytes"),
    _row("topic.flush.intervals.ms", topic="flush.ms"),
    _row("topic.log.flush.intervals.ms", topic="flush.ms"),
    _row("topic.partition.count.map", "create the topics with their number of partitions"),
    _row("max.message.size", broker="message.max.bytes", topic="max.message.bytes", producer="max.request.size"),
    _row("max.socket.request.bytes", broker="socket.request.max.bytes"),
    _row("socket.send.buffer", broker="socket.send.buffer.bytes"),
    _row("socket.receive.buffer", broker="socket.receive.buffer.bytes"),
    _row("monitoring.period.secs", f"{_GONE}: metrics are at /metrics of ottla.console.listener"),
    _row("enable.zookeeper", "leave it out for no ZooKeeper", broker="zookeeper.connect"),
    _row("zk.connect", broker="zookeeper.connect", zookeeper="zookeeper.connect", clients="bootstrap.servers"),
    _row(
        "zk.connectiontimeout.ms",
        broker="zookeeper.connection.timeout.ms",
        zookeeper="zookeeper.connection.timeout.ms",
    ),
    _row("zk.sessiontimeout.ms", broker="zookeeper.session.timeout.ms", zookeeper="zookeeper.session.timeout.ms"),
    _row("zk.synctime.ms", _GONE),
    # ---- brokers of 0.8 to 2
    _row("host.name", broker="listeners"),
    _row("advertised.host.name", broker="advertised.listeners"),
    _row("advertised.port", broker="advertised.listeners"),
    _row("auto.create.topics", broker="auto.create.topics.enable"),
    _row("auto.leader.rebalance", broker="auto.leader.rebalance.enable"),
    _row("controller.message.queue.size", _GONE),
    _row("default.flush.interval.ms", broker="log.flush.interval.ms", topic="flush.ms"),
    _row("log.cleanup.interval.ms", broker="log.retention.check.interval.ms"),
    _row("log.delete.delay.ms", broker="log.segment.delete.delay.ms", topic="file.delete.delay.ms"),
    _row("log.retention.policy", broker="log.cleanup.policy", topic="cleanup.policy"),
    _row("log.cleaner.io.buffer.bytes", broker="log.cleaner.io.buffer.size"),
    _row("log.flush.interval.messages.per.topic", topic="flush.messages"),
    _row("log.flush.interval.ms.per.topic", topic="flush.ms"),
    _row("log.retention.bytes.per.topic", topic="retention.bytes"),
    _row("log.retention.hours.per.topic", topic="retention.ms"),
    _row("log.roll.hours.per.topic", topic="segment.ms"),
    _row("log.segment.bytes.per.topic", topic="segment.bytes"),
    _row(
        "log.message.timestamp.difference.ms",
        broker="log.message.timestamp.before.max.ms log.message.timestamp.after.max.ms",
    ),
    _row("max.connections.per.ip.override", broker="max.connections.per.ip.overrides"),
    _row("offsets.topic.retention.minutes", broker="offsets.retention.minutes"),
    _row("replica.fetch.max.bytes.per.topic", broker="replica.fetch.max.bytes"),
    _row("replica.fetch.min.messages", broker="replica.fetch.min.bytes"),
    _row("replica.fetch.wait.time.ms", broker="replica.fetch.wait.max.ms"),
    _row("replica.lag.max.time.ms", broker="replica.lag.time.max.ms"),
    _row("replica.highwatermark.checkpoint.ms", broker="replica.high.watermark.checkpoint.interval.ms"),
    _row("quota.consumer.default", "set consumer_byte_rate for the default client with kafka-configs"),
    _row("quota.producer.default", "set producer_byte_rate for the default client with kafka-configs"),
    _row("zookeeper.sync.time.ms", _GONE),
    # ---- brokers of today, which are named beside clients' settings and then given to a client
    _row("broker.id", broker="broker.id"),
    _row("log.cleanup.policy", broker="log.cleanup.policy", topic="cleanup.policy"),
    _row("log.segment.bytes", broker="log.segment.bytes", topic="segment.bytes"),
    _row("message.max.bytes", broker="message.max.bytes", topic="max.message.bytes", producer="max.request.size"),
    _row("min.insync.replicas", broker="min.insync.replicas", topic="min.insync.replicas"),
    _row("replica.fetch.max.bytes", broker="replica.fetch.max.bytes"),
    _row("replica.lag.max.messages", broker="replica.lag.max.messages"),
    _row("replica.lag.time.max.ms", broker="replica.lag.time.max.ms"),
    _row(
        "unclean.leader.election.enable",
        broker="unclean.leader.election.enable",
        topic="unclean.leader.election.enable",
    ),
    # ---- producers of 0.7
    _row("broker.list", "without the brokers' ids", clients="bootstrap.servers", zookeeper="zookeeper.connect"),
    _row("brokerpartitioninfo", _GONE, of=Reader.PRODUCER),
    _row("buffer.size", _ONE_SOCKET, of=Reader.PRODUCER),
    _row("connect.timeout.ms", clients="request.timeout.ms"),
    _row("reconnect.interval", _WHILE_USED, producer="connections.max.idle.ms"),
    _row("reconnect.time.interval.ms", _WHILE_USED, producer="connections.max.idle.ms"),
    _row("zk.read.num.retries", f"{_GONE}: producers do not know ZooKeeper", of=Reader.PRODUCER),
    _row("queue.time", producer="linger.ms"),
    _row("queue.size", _IN_BYTES, producer="buffer.memory"),
    _row("event.handler", _BEFORE_SEND, of=Reader.PRODUCER),
    _row("event.handler.props", _BEFORE_SEND, of=Reader.PRODUCER),
    _row("callback.handler", _AWAIT_SEND, of=Reader.PRODUCER),
    _row("callback.handler.props", _AWAIT_SEND, of=Reader.PRODUCER),
    # ---- producers of 0.8
    _row("metadata.broker.list", clients="bootstrap.servers", zookeeper="zookeeper.connect"),
    _row("request.required.acks", producer="acks"),
    _row("required.acks", producer="acks"),
    _row("producer.type", _IN_BACKGROUND, of=Reader.PRODUCER),
    _row("serializer.class", producer="value.serializer"),
    _row("key.serializer.class", producer="key.serializer"),
    _row("partitioner.class", "an object or a function of Python", producer="partitioner"),
    _row(
        "compression.codec",
        broker="compression.type",
        topic="compression.type",
        producer="compression.type",
        of=Reader.PRODUCER,
    ),
    _row(
        "compressed.topics",
        "a Producer compresses for all topics, a topic may have a compression.type of its own",
        topic="compression.type",
        producer="compression.type",
    ),
    _row(
        "message.send.max.retries",
        "what is retriable is sent again until then",
        producer="delivery.timeout.ms",
    ),
    _row("topic.metadata.refresh.interval.ms", producer="metadata.max.age.ms", consumer="metadata.max.age.ms"),
    _row("queue.buffering.max.ms", producer="linger.ms"),
    _row("queue.buffering.max.messages", _IN_BYTES, producer="buffer.memory"),
    _row("queue.enqueue.timeout.ms", producer="max.block.ms"),
    _row("queue.enqueuetimeout.ms", producer="max.block.ms"),
    _row("batch.num.messages", _IN_BYTES, producer="batch.size"),
    _row("send.buffer.bytes", _ONE_SOCKET, broker="socket.send.buffer.bytes", of=Reader.PRODUCER),
    _row("receive.buffer.bytes", _ONE_SOCKET, broker="socket.receive.buffer.bytes", of=Reader.CONSUMER),
    # ---- today's producer in its first versions
    _row("block.on.buffer.full", "send waits, send_nowait raises BufferFullError", producer="max.block.ms"),
    _row("metadata.fetch.timeout.ms", producer="max.block.ms"),
    _row("timeout.ms", producer="request.timeout.ms"),
    # ---- consumers of 0.7
    _row("groupid", consumer="group.id", zookeeper="group.id"),
    _row("consumerid", consumer="client.id", zookeeper="consumer.id"),
    _row("socket.buffersize", _ONE_SOCKET, of=Reader.CONSUMER),
    _row("fetch.size", consumer="max.partition.fetch.bytes", zookeeper="fetch.message.max.bytes"),
    _row("backoff.increment.ms", _LONG_FETCH, consumer="fetch.max.wait.ms", zookeeper="fetch.wait.max.ms"),
    _row("fetcher.backoff.ms", _LONG_FETCH, consumer="fetch.max.wait.ms", zookeeper="fetch.wait.max.ms"),
    _row(
        "queuedchunks.max",
        _CHUNKS_IN_BYTES,
        consumer="max.buffered.bytes",
        zookeeper="max.buffered.bytes",
    ),
    _row("autocommit.enable", consumer="enable.auto.commit", zookeeper="auto.commit.enable"),
    _row("autocommit.interval.ms", consumer="auto.commit.interval.ms", zookeeper="auto.commit.interval.ms"),
    _row("autooffset.reset", consumer="auto.offset.reset", zookeeper="auto.offset.reset"),
    _row("rebalance.retries.max", zookeeper="rebalance.max.retries"),
    _row(
        "shallowiterator.enable",
        f"{_GONE}: fetched batches are decoded when their records are asked for",
        of=Reader.CONSUMER,
    ),
    _row("mirror.topics.whitelist", "give a TopicFilter.white_list", zookeeper="topic.filter"),
    _row("mirror.topics.blacklist", "give a TopicFilter.black_list", zookeeper="topic.filter"),
    _row("mirror.consumer.numthreads", zookeeper="threads"),
    # ---- consumers of 0.8
    _row("zookeeper", broker="zookeeper.connect", zookeeper="zookeeper.connect", clients="bootstrap.servers"),
    _row("zookeeper.connect", broker="zookeeper.connect", zookeeper="zookeeper.connect", clients="bootstrap.servers"),
    _row(
        "zookeeper.session.timeout.ms",
        "a Consumer has a session with its group's coordinator: session_timeout_ms",
        broker="zookeeper.session.timeout.ms",
        zookeeper="zookeeper.session.timeout.ms",
    ),
    _row(
        "zookeeper.connection.timeout.ms",
        broker="zookeeper.connection.timeout.ms",
        zookeeper="zookeeper.connection.timeout.ms",
    ),
    _row("consumer.id", consumer="client.id", zookeeper="consumer.id"),
    _row("socket.timeout.ms", clients="request.timeout.ms", zookeeper="socket.timeout.ms"),
    _row("socket.receive.buffer.bytes", _ONE_SOCKET, broker="socket.receive.buffer.bytes"),
    _row(
        "fetch.message.max.bytes", _FETCHES, consumer="max.partition.fetch.bytes", zookeeper="fetch.message.max.bytes"
    ),
    _row(
        "max.partition.fetch.bytes", _FETCHES, consumer="max.partition.fetch.bytes", zookeeper="fetch.message.max.bytes"
    ),
    _row(
        "num.consumer.fetchers",
        "a consumer fetches from all brokers at once; followers have num.replica.fetchers",
        of=Reader.CONSUMER,
    ),
    _row("auto.commit.enable", consumer="enable.auto.commit", zookeeper="auto.commit.enable"),
    _row("enable.auto.commit", consumer="enable.auto.commit", zookeeper="auto.commit.enable"),
    _row(
        "queued.max.message.chunks",
        _CHUNKS_IN_BYTES,
        consumer="max.buffered.bytes",
        zookeeper="max.buffered.bytes",
    ),
    _row("rebalance.max.retries", _COORDINATED, zookeeper="rebalance.max.retries"),
    _row("rebalance.backoff.ms", _COORDINATED, zookeeper="rebalance.backoff.ms"),
    _row("fetch.wait.max.ms", consumer="fetch.max.wait.ms", zookeeper="fetch.wait.max.ms"),
    _row("fetch.max.wait.ms", consumer="fetch.max.wait.ms", zookeeper="fetch.wait.max.ms"),
    _row("refresh.leader.backoff.ms", consumer="retry.backoff.ms", zookeeper="refresh.leader.backoff.ms"),
    _row("retry.backoff.ms", clients="retry.backoff.ms", zookeeper="refresh.leader.backoff.ms"),
    _row(
        "request.timeout.ms", broker="request.timeout.ms", clients="request.timeout.ms", zookeeper="socket.timeout.ms"
    ),
    _row(
        "consumer.timeout.ms",
        "iteration waits as long as it takes: put asyncio.timeout around it, or use getmany",
        of=Reader.CONSUMER,
    ),
    _row("exclude.internal.topics", consumer="exclude.internal.topics", zookeeper="exclude.internal.topics"),
    _row(
        "partition.assignment.strategy",
        "a ZooKeeperConsumer's group always has Kafka 0.8's range",
        consumer="partition.assignment.strategy",
    ),
    _row("offsets.storage", _IN_KAFKA, zookeeper="offsets.storage"),
    _row("dual.commit.enabled", _IN_KAFKA, zookeeper="dual.commit.enabled"),
    _row("offsets.channel.backoff.ms", consumer="retry.backoff.ms", zookeeper="refresh.leader.backoff.ms"),
    _row("offsets.channel.socket.timeout.ms", consumer="request.timeout.ms", zookeeper="socket.timeout.ms"),
    _row(
        "offsets.commit.max.retries",
        "a commit is tried again for that long",
        consumer="api.timeout.ms",
        zookeeper="socket.timeout.ms",
    ),
    # ---- clients of today, whose settings are put into a broker's file, or given to another client
    _row("acks", producer="acks"),
    _row("auto.offset.reset", consumer="auto.offset.reset", zookeeper="auto.offset.reset"),
    _row("auto.commit.interval.ms", consumer="auto.commit.interval.ms", zookeeper="auto.commit.interval.ms"),
    _row(
        "bootstrap.servers",
        "brokers find each other by zookeeper.connect",
        clients="bootstrap.servers",
        zookeeper="zookeeper.connect",
    ),
    _row("client.id", clients="client.id", zookeeper="client.id"),
    _row("group.id", consumer="group.id", zookeeper="group.id"),
    _row("session.timeout.ms", consumer="session.timeout.ms", zookeeper="zookeeper.session.timeout.ms"),
    _row("heartbeat.interval.ms", consumer="heartbeat.interval.ms"),
    _row("max.poll.interval.ms", consumer="max.poll.interval.ms"),
    _row("max.poll.records", consumer="max.poll.records"),
    _row("fetch.min.bytes", consumer="fetch.min.bytes", zookeeper="fetch.min.bytes"),
)


def _with_todays(rows: tuple[ClassicName, ...]) -> dict[str, ClassicName]:
    """Return the rows by name, with a row for each current name of a client's setting in `homes`."""
    found = {row.name: row for row in rows}
    todays: dict[str, dict[Reader, tuple[str, ...]]] = {}
    for row in rows:
        for reader, names in row.homes.items():
            for name in names if reader.is_client else ():
                if name not in found:
                    todays.setdefault(name, {})[reader] = (name,)
    return found | {name: ClassicName(name, homes, "", None) for name, homes in todays.items()}


CLASSIC_NAMES: Final[Mapping[str, ClassicName]] = {row.name: row for row in _ROWS}
"""The rows by name, in Kafka's spelling."""
_OPTIONS: Final = {
    "bootstrap.servers": "--bootstrap-server",
    "compression.type": "--compression",
    "group.id": "--group",
}
"""Options of the `ottla` command whose names differ from those of their settings."""
_BY_NAME: Final = _with_todays(_ROWS)


def classic_name(name: str) -> ClassicName | None:
    """Return the row of a name, spelled with dots, underscores or hyphens; None if Kafka never had the name."""
    return _BY_NAME.get(name.strip("-_").replace("_", ".").replace("-", ".").lower())


def advice(name: str, asked: Reader, known: Collection[str] | None = None) -> str | None:
    """Return what to use instead of this name in the settings of `asked`: the current name, or who reads it.

    known: the names that `asked` reads, if it does not read all of them. None if the table does not have the name, or
    `asked` reads it under this name.
    """
    row = classic_name(name)
    if row is None:
        return None
    own = row.homes.get(asked, ())
    if known is not None and not all(asked.spell(one) in known for one in own):
        own = ()
    if row.name in own:
        return None
    if not own:
        return replacement(row)
    return "; ".join(part for part in (f"use {_listed(map(asked.spell, own))}", row.hint) if part)


def replacement(row: ClassicName) -> str:
    """Return which components read a setting today, with the row's hint."""
    return "; ".join(part for part in (elsewhere(row), row.hint) if part)


def option_instead(option: str, options: Collection[str]) -> str | None:
    """Return the command's option for a setting's name that was given as an option (`--groupid`: `--group`).

    options: the options of the command. None if none of them is for this setting, or `option` is not a setting.
    """
    row = classic_name(option)
    if row is None:
        return None
    for name in sorted({name for names in row.homes.values() for name in names}):
        own = option_of(name)
        if own in options:
            return own
    return None


def option_of(name: str) -> str:
    """Return the option of the `ottla` command for a setting: --linger-ms for linger.ms."""
    return _OPTIONS.get(name, f"--{name.replace('.', '-')}")


def elsewhere(row: ClassicName, readers: Collection[Reader] = tuple(Reader)) -> str:
    """Return which of `readers` read a setting, and its name there; empty if none does."""
    by_name: dict[str, list[str]] = {}
    for reader, names in row.homes.items():
        if reader in readers:
            by_name.setdefault(_listed(map(reader.spell, names)), []).append(reader.value)
    return "; ".join(
        f"{_listed(found)} {'have' if len(found) > 1 or found[0].islower() else 'has'} {names}"
        for names, found in by_name.items()
    )


def _listed(words: Iterable[str]) -> str:
    """Join words for a sentence: "a", "a and b", "a, b and c"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
