"""Rules about several settings of a broker together; each error message names all settings of the rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker.coordinator.consumer.assignors import ASSIGNORS, assignor_name
from broker.network.listener import SASL_PROTOCOLS
from broker.settings.catalog import BROKER_SETTINGS
from broker.settings.console_checks import check_console
from broker.settings.zookeeper import check_zookeeper_security
from registry.errors import BadArgumentsError
from registry.paths import validate_path
from registry.znodes.tree import is_ours
from registry.zookeeper.address import ZooKeeperAddress
from security.acls.decision import parse_super_users
from security.password_encoder import CIPHER, KEY_BITS, KEY_FACTORIES, MAX_ITERATIONS
from storage.setting import ConfigError

if TYPE_CHECKING:
    from broker.settings.config import BrokerConfig

ORDERED: tuple[tuple[str, str], ...] = (
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.session.timeout.ms", "group.share.session.timeout.ms"),
    ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
)
"""Pairs of settings of which the first must not exceed the second."""

REPLICA_SELECTORS = (
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)
"""The allowed classes of replica.selector.class: those that Kafka contains."""

LARGER_THAN_MESSAGES = (
    "log.segment.bytes",
    "replica.fetch.max.bytes",
    "fetch.max.bytes",
    "socket.request.max.bytes",
)
"""Sizes that should be at least that of the largest message (message.max.bytes)."""

ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
"""The one class of Kafka's for authorizer.class.name that works with ZooKeeper."""

MIN_DEDUPE_BUFFER_BYTES = 1024 * 1024


SERVED_REBALANCE_PROTOCOLS = ("classic", "consumer")


def check_values(config: BrokerConfig) -> None:
    """Raise ConfigError for the first broken rule."""
    _check_id(config)
    _check_times(config)
    _check_listeners(config)
    _check_sasl(config)
    _check_connections(config)
    _check_internal_topics(config)
    _check_zookeeper(config)
    _check_legacy07_chroot(config)
    _check_replica_selector(config)
    _check_groups(config)
    _check_password_encoder(config)
    _check_authorizer(config)
    check_console(config)
    values: dict[str, Any] = config.values
    for low, high in ORDERED:
        if values[low] > values[high]:
            raise ConfigError(low, values[low], f"must be at most {high} ({values[high]})")
    threads = max(1, values["log.cleaner.threads"])
    if values["log.cleaner.dedupe.buffer.size"] // threads <= MIN_DEDUPE_BUFFER_BYTES:
        rule = f"must be more than 1 MiB for each of log.cleaner.threads ({threads})"
        raise ConfigError("log.cleaner.dedupe.buffer.size", values["log.cleaner.dedupe.buffer.size"], rule)


def size_warnings(config: BrokerConfig) -> Iterator[str]:
    """Yield a warning for every size smaller than the largest message, unless both settings have their defaults.

    Such settings work (a fetch always returns the whole first batch, KIP-74), but are probably a mistake.
    """
    values: dict[str, Any] = config.values
    largest = values["message.max.bytes"]
    for name in LARGER_THAN_MESSAGES:
        chosen = any(values[other] != BROKER_SETTINGS[other].default for other in (name, "message.max.bytes"))
        if values[name] < largest and chosen:
            yield f"{name} ({values[name]}) is smaller than message.max.bytes ({largest})"


def _check_id(config: BrokerConfig) -> None:
    number, node = config.broker_id, config.values["node.id"]
    if number != node:
        raise ConfigError("node.id", node, f"must be the same as broker.id ({number})")
    name = "node.id" if "node.id" in config.static and "broker.id" not in config.static else "broker.id"
    if not config.broker_id_generation_enable:
        if number < 0:
            raise ConfigError(name, number, "must be at least 0 as broker.id.generation.enable is false")
    elif not -1 <= number <= config.reserved_broker_max_id:
        rule = f"must be from -1 to reserved.broker.max.id ({config.reserved_broker_max_id})"
        raise ConfigError(name, number, rule)


def _check_times(config: BrokerConfig) -> None:
    if config.log_roll_ms < 1:
        raise ConfigError("log.roll.ms", config.log_roll_ms, "must be at least 1")
    if config.log_roll_jitter_ms < 0:
        raise ConfigError("log.roll.jitter.ms", config.log_roll_jitter_ms, "must be at least 0")
    if config.log_retention_ms == 0:
        names = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
        name = next(name for name in names if config.values[name] is not None)
        raise ConfigError(name, 0, "must be at least 1, or -1 for no limit")


def _check_replica_selector(config: BrokerConfig) -> None:
    name = config.replica_selector_class
    if name and name not in REPLICA_SELECTORS:
        raise ConfigError("replica.selector.class", name, f"must be one of {', '.join(REPLICA_SELECTORS)}")


def _check_listeners(config: BrokerConfig) -> None:
    names = {listener.name for listener in config.listeners}
    advertised = {listener.name for listener in config.advertised_listeners}
    shown = ",".join(map(str, config.advertised_listeners))
    if not names:
        raise ConfigError("listeners", "", "must name at least one listener")
    if not advertised:
        raise ConfigError("advertised.listeners", "", "must name at least one listener")
    if not advertised <= names:
        rule = f"{', '.join(sorted(advertised - names))} must be among the names in listeners"
        raise ConfigError("advertised.listeners", shown, rule)
    for listener in config.advertised_listeners:
        if listener.host == "0.0.0.0":
            raise ConfigError(
                "advertised.listeners", shown, "0.0.0.0 is not an address that others can connect to: name a host"
            )
    if "inter.broker.listener.name" in config.static and "security.inter.broker.protocol" in config.static:
        rule = "set only one of inter.broker.listener.name and security.inter.broker.protocol"
        raise ConfigError("inter.broker.listener.name", config.inter_broker_listener_name, rule)
    inter_broker = config.inter_broker_listener_name
    if inter_broker not in advertised:
        rule = f"must be one of the advertised listeners: {', '.join(sorted(advertised))}"
        by_protocol = "security.inter.broker.protocol" in config.static
        raise ConfigError(
            "security.inter.broker.protocol" if by_protocol else "inter.broker.listener.name", inter_broker, rule
        )
    control_plane = config.control_plane_listener_name
    if control_plane is not None and (control_plane not in advertised or control_plane == inter_broker):
        rule = "must be an advertised listener, and another one than the inter-broker listener"
        raise ConfigError("control.plane.listener.name", control_plane, rule)
    others = config.ottla_inter_broker_listener_names
    if not names.issuperset(others):
        rule = f"{', '.join(sorted(set(others) - names))} must be among the names in listeners"
        raise ConfigError("ottla.inter.broker.listener.names", ",".join(others), rule)
    early = str(config.values["early.start.listeners"] or "")
    unknown = [one.strip() for one in early.split(",") if one.strip() and one.strip().upper() not in names]
    if unknown:
        raise ConfigError("early.start.listeners", early, f"{', '.join(unknown)} must be among the names in listeners")


def _check_sasl(config: BrokerConfig) -> None:
    listeners = [one for one in config.listeners if one.security_protocol in SASL_PROTOCOLS]
    handler = config.values["sasl.server.callback.handler.class"]
    if not listeners and not handler:
        return
    from broker.authentication import settings as sasl  # only brokers with SASL need it

    sasl.check_callback_handler(handler)
    for listener in listeners:
        found = config.of_listener(listener.name)
        sasl.sasl_settings(found)
        if listener.name in config.broker_listener_names:
            sasl.check_own_mechanism(found)
        config.warnings += [text for text in sasl.sasl_warnings(found) if text not in config.warnings]


def _check_authorizer(config: BrokerConfig) -> None:
    name = config.authorizer_class_name
    if name not in ("", ACL_AUTHORIZER):
        rule = f"must be {ACL_AUTHORIZER} or empty; ottla.authorizer names an authorizer of your own"
        raise ConfigError("authorizer.class.name", name, rule)
    if name and config.ottla_authorizer:
        rule = "only one of authorizer.class.name and ottla.authorizer may be set"
        raise ConfigError("ottla.authorizer", config.ottla_authorizer, rule)
    if name:
        try:
            parse_super_users(config.super_users)
        except ValueError as error:
            raise ConfigError("super.users", config.super_users, str(error)) from None
    elif "super.users" in config.static and config.super_users and not config.ottla_authorizer:
        config.warnings.append("super.users has no effect without authorizer.class.name: clients may do everything")


def _check_connections(config: BrokerConfig) -> None:
    queued, largest = config.queued_max_request_bytes, config.socket_request_max_bytes
    if 0 < queued < largest:
        rule = f"must be at least socket.request.max.bytes ({largest})"
        raise ConfigError("queued.max.request.bytes", queued, rule)
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        rule = "may be 0 only if max.connections.per.ip.overrides is set"
        raise ConfigError("max.connections.per.ip", 0, rule)
    delay: Any = config.values["connection.failed.authentication.delay.ms"]
    if 0 <= config.connections_max_idle_ms <= delay:
        rule = f"must be less than connections.max.idle.ms ({config.connections_max_idle_ms})"
        raise ConfigError("connection.failed.authentication.delay.ms", delay, rule)


def _check_internal_topics(config: BrokerConfig) -> None:
    values: dict[str, Any] = config.values
    factor = config.offsets_topic_replication_factor
    if not -1 <= values["offsets.commit.required.acks"] <= factor:
        rule = f"must be from -1 to offsets.topic.replication.factor ({factor})"
        raise ConfigError("offsets.commit.required.acks", values["offsets.commit.required.acks"], rule)
    if not 0 <= values["offsets.topic.compression.codec"] <= 4:
        rule = "must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)"
        raise ConfigError("offsets.topic.compression.codec", values["offsets.topic.compression.codec"], rule)
    if "classic" not in values["group.coordinator.rebalance.protocols"]:
        text = ",".join(values["group.coordinator.rebalance.protocols"])
        raise ConfigError("group.coordinator.rebalance.protocols", text, "must contain classic")


def _check_zookeeper(config: BrokerConfig) -> None:
    check_zookeeper_security(config)
    if not config.zookeeper_connect:
        return
    try:
        ZooKeeperAddress.parse(config.zookeeper_connect)
    except BadArgumentsError as error:
        raise ConfigError("zookeeper.connect", config.zookeeper_connect, str(error)) from None


def _check_legacy07_chroot(config: BrokerConfig) -> None:
    name, chroot = "ottla.zookeeper.legacy07.chroot", config.ottla_zookeeper_legacy07_chroot
    if not chroot:
        return
    try:
        validate_path(chroot)
    except BadArgumentsError as error:
        raise ConfigError(name, chroot, str(error)) from None
    if chroot == "/" or is_ours(chroot):
        raise ConfigError(name, chroot, "must be outside of the cluster's own tree")
    if not config.zookeeper_connect:
        raise ConfigError(name, chroot, "needs zookeeper.connect: other programs cannot read the embedded registry")
    if any(":" in listener.host for listener in config.advertised_listeners[:1]):
        raise ConfigError(name, chroot, "Kafka 0.7's tree cannot contain IPv6 addresses (advertised.listeners)")


def _check_password_encoder(config: BrokerConfig) -> None:
    for name, value, allowed in (
        ("password.encoder.cipher.algorithm", config.password_encoder_cipher_algorithm, (CIPHER,)),
        ("password.encoder.keyfactory.algorithm", config.password_encoder_keyfactory_algorithm, tuple(KEY_FACTORIES)),
        ("password.encoder.key.length", config.password_encoder_key_length, KEY_BITS),
    ):
        if value is not None and value not in allowed:
            raise ConfigError(name, value, f"must be one of {', '.join(map(str, allowed))}")
    iterations = config.password_encoder_iterations
    if iterations > MAX_ITERATIONS:
        raise ConfigError("password.encoder.iterations", iterations, f"must be at most {MAX_ITERATIONS}")


def _check_groups(config: BrokerConfig) -> None:
    name = "group.coordinator.rebalance.protocols"
    protocols = config.group_coordinator_rebalance_protocols
    for protocol in protocols:
        if protocol not in SERVED_REBALANCE_PROTOCOLS:
            raise ConfigError(name, ",".join(protocols), f"{protocol} is not supported")
    for assignor in config.group_consumer_assignors:
        if assignor_name(assignor) is None:
            known = ", ".join(ASSIGNORS)
            raise ConfigError("group.consumer.assignors", assignor, f"must be one of {known}, or its class in Kafka")
    if not config.group_consumer_assignors:
        raise ConfigError("group.consumer.assignors", "", "must name an assignor")
