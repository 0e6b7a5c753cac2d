"""Names that may not stand in a properties file: unknown ones, and classic ones that Kafka has given up.

A classic name is one that a Kafka of the years 0.7 to 3 read (or that its clients do); it is refused with
the name that does its work today, since to skip it would silently do something else than the file says.
"""

from __future__ import annotations

from collections.abc import Mapping

from storage.setting import ConfigError, Setting

LISTENER_PREFIX = "listener.name."

_CLIENT = "a setting of clients, not of a broker: "

CLASSIC_NAMES: dict[str, str] = {
    # 0.7
    "brokerid": "use broker.id",
    "hostname": "use listeners and advertised.listeners",
    "port": "use listeners",
    "num.threads": "use num.io.threads and num.network.threads",
    "log.file.size": "use log.segment.bytes",
    "log.file.time.ms": "use log.roll.ms",
    "log.retention.size": "use log.retention.bytes",
    "log.cleanup.interval.mins": "use log.retention.check.interval.ms",
    "log.flush.interval": "use log.flush.interval.messages",
    "log.default.flush.interval.ms": "use log.flush.interval.ms",
    "log.default.flush.scheduler.interval.ms": "use log.flush.scheduler.interval.ms",
    "topic.log.file.size": "set segment.bytes on the topic",
    "topic.log.file.time.ms": "set segment.ms on the topic",
    "topic.log.retention.hours": "set retention.ms on the topic",
    "topic.log.retention.size": "set retention.bytes on the topic",
    "topic.flush.intervals.ms": "set flush.ms on the topic",
    "topic.log.flush.intervals.ms": "set flush.ms on the topic",
    "topic.partition.count.map": "create the topics with their number of partitions",
    "max.message.size": "use message.max.bytes",
    "max.socket.request.bytes": "use socket.request.max.bytes",
    "socket.send.buffer": "use socket.send.buffer.bytes",
    "socket.receive.buffer": "use socket.receive.buffer.bytes",
    "monitoring.period.secs": "it is gone: metrics are at /metrics of ottla.console.listener",
    "enable.zookeeper": "use zookeeper.connect, or leave it out for no ZooKeeper",
    "zk.connect": "use zookeeper.connect",
    "zk.connectiontimeout.ms": "use zookeeper.connection.timeout.ms",
    "zk.sessiontimeout.ms": "use zookeeper.session.timeout.ms",
    "zk.synctime.ms": "it is gone from Kafka",
    # 0.8 to 2
    "host.name": "use listeners",
    "advertised.host.name": "use advertised.listeners",
    "advertised.port": "use advertised.listeners",
    "auto.create.topics": "use auto.create.topics.enable",
    "auto.leader.rebalance": "use auto.leader.rebalance.enable",
    "controller.message.queue.size": "it is gone from Kafka",
    "default.flush.interval.ms": "use log.flush.interval.ms",
    "log.cleanup.interval.ms": "use log.retention.check.interval.ms",
    "log.delete.delay.ms": "use log.segment.delete.delay.ms",
    "log.retention.policy": "use log.cleanup.policy",
    "log.cleaner.io.buffer.bytes": "use log.cleaner.io.buffer.size",
    "log.flush.interval.messages.per.topic": "set flush.messages on the topic",
    "log.flush.interval.ms.per.topic": "set flush.ms on the topic",
    "log.retention.bytes.per.topic": "set retention.bytes on the topic",
    "log.retention.hours.per.topic": "set retention.ms on the topic",
    "log.roll.hours.per.topic": "set segment.ms on the topic",
    "log.segment.bytes.per.topic": "set segment.bytes on the topic",
    "log.message.timestamp.difference.ms": "use log.message.timestamp.before.max.ms and .after.max.ms",
    "max.connections.per.ip.override": "use max.connections.per.ip.overrides",
    "num.consumer.fetchers": "a setting of the old consumer; followers have num.replica.fetchers",
    "offsets.topic.retention.minutes": "use offsets.retention.minutes",
    "replica.fetch.max.bytes.per.topic": "use replica.fetch.max.bytes",
    "replica.fetch.min.messages": "use replica.fetch.min.bytes",
    "replica.fetch.wait.time.ms": "use replica.fetch.wait.max.ms",
    "replica.lag.max.time.ms": "use replica.lag.time.max.ms",
    "replica.highwatermark.checkpoint.ms": "use replica.high.watermark.checkpoint.interval.ms",
    "quota.consumer.default": "set consumer_byte_rate for the default client with kafka-configs",
    "quota.producer.default": "set producer_byte_rate for the default client with kafka-configs",
    "zookeeper.sync.time.ms": "it is gone from Kafka",
    # clients' names, old and new, that are often put here
    "acks": f"{_CLIENT}producers have acks",
    "request.required.acks": f"{_CLIENT}producers have acks",
    "required.acks": f"{_CLIENT}producers have acks",
    "producer.type": f"{_CLIENT}producers always send in the background",
    "metadata.broker.list": f"{_CLIENT}clients have bootstrap.servers",
    "bootstrap.servers": f"{_CLIENT}brokers find each other by zookeeper.connect",
    "compression.codec": "use compression.type",
    "fetch.message.max.bytes": f"{_CLIENT}consumers have max.partition.fetch.bytes, brokers fetch.max.bytes",
    "fetch.size": f"{_CLIENT}consumers have max.partition.fetch.bytes, brokers fetch.max.bytes",
    "max.partition.fetch.bytes": f"{_CLIENT}brokers have fetch.max.bytes",
    "group.id": f"{_CLIENT}consumers have group.id",
    "groupid": f"{_CLIENT}consumers have group.id",
    "auto.offset.reset": f"{_CLIENT}consumers have auto.offset.reset",
    "autooffset.reset": f"{_CLIENT}consumers have auto.offset.reset",
    "enable.auto.commit": f"{_CLIENT}consumers have enable.auto.commit",
    "auto.commit.enable": f"{_CLIENT}consumers have enable.auto.commit",
    "autocommit.enable": f"{_CLIENT}consumers have enable.auto.commit",
    # settings of Kafka's authorizers
    "super.users": "a setting of an authorizer, which is not there yet: everyone may do everything",
    "allow.everyone.if.no.acl.found": "a setting of an authorizer, which is not there yet",
}
"""Classic name to what to do instead."""


def refuse_unknown(
    name: str, value: str, settings: Mapping[str, Setting], topic_settings: Mapping[str, Setting]
) -> ConfigError:
    """The error for a name that no setting has: what it is called today, or which known name is nearest."""
    if name in CLASSIC_NAMES:
        return ConfigError(name, value, f"this name is not read any more: {CLASSIC_NAMES[name]}")
    if name in topic_settings:
        server = topic_settings[name].server
        hint = f": use {server[0]}" if server else ""
        return ConfigError(name, value, f"a setting of topics, not of a broker{hint}")
    from difflib import get_close_matches  # only on the way to an error: it is slow to import

    known = [other for other in settings if other.startswith("ottla.") == name.startswith("ottla.")]
    close = get_close_matches(name, known, 1, 0.4 if name.startswith("ottla.") else 0.7)
    hint = f"; the nearest is {close[0]}" if close else ""
    return ConfigError(name, value, f"no setting has this name{hint}")
