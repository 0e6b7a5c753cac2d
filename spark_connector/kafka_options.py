"""Options with the prefix `kafka.`: settings of the Java client, translated to the options of Ottla's client.

Each name is in one of three groups: translated; ignored, because it has no meaning here (for instance the session of a
consumer group, as the driver assigns partitions); or refused, with the reason or the most similar name.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from client.errors import InvalidOptionError
from client.options import refuse
from client.wire.java_security import SECURITY, changes_nothing
from client.wire.security_options import NAMES, SECRETS, SecurityOptions
from protocol.classic_names import Reader, classic_name, elsewhere
from security.secret import Secret

PREFIX: Final = "kafka."


class Setting(NamedTuple):
    """The option of Ottla's client for a setting of the Java client, and the parser of its text."""

    option: str
    parse: Callable[[str], Any]


class Settings(NamedTuple):
    """The settings of one kind of Java client, without the prefix."""

    translated: Mapping[str, Setting]
    ignored: frozenset[str]
    refused: Mapping[str, str]
    """What to do instead, by name."""


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def _acks(text: str) -> int | str:
    return {"all": "all", "-1": "all"}.get(text.strip().lower()) or int(text)


def _compression(text: str) -> str | None:
    return None if text.strip().lower() == "none" else text.strip().lower()


def _named(parse: Callable[[str], Any], *names: str) -> dict[str, Setting]:
    return {name: Setting(name.replace(".", "_"), parse) for name in names}


_COMMON: Final = {
    **_named(str, "bootstrap.servers", "client.id"),
    **_named(
        int,
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    ),
}
_COMMON_IGNORED: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "enable.metrics.push",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "send.buffer.bytes",
    }
)
# Those of TLS and SASL that are texts; a query cannot carry an ssl.SSLContext or a function.
_SECURITY: Final = {
    name.replace("_", "."): Setting(name, Secret if name in SECRETS else str)
    for name in NAMES
    if name not in ("ssl_context", "sasl_oauth_token_provider")
}
SECURITY_OPTIONS: Final = tuple(setting.option for setting in _SECURITY.values())
"""The options of Ottla's client for them."""
CONSUMER: Final = Settings(
    translated=_COMMON
    | {
        **_named(str, "client.rack", "group.id", "isolation.level"),
        **_named(int, "default.api.timeout.ms", "fetch.max.bytes", "max.partition.fetch.bytes"),
        **_named(_boolean, "allow.auto.create.topics", "check.crcs"),
        "fetch.max.wait.ms": Setting("fetch_max_wait_ms", int),
        "fetch.min.bytes": Setting("fetch_min_bytes", int),
    },
    ignored=_COMMON_IGNORED
    | {
        "auto.commit.interval.ms",
        "exclude.internal.topics",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
    },
    refused={
        "auto.offset.reset": "set startingOffsets, which says where a query begins",
        "enable.auto.commit": "offsets are in the checkpoint; set commitGroupId to commit them to a group, too",
        "interceptor.classes": "there are no interceptors: a Python source runs no Java classes",
        "key.deserializer": "keys are bytes: cast or decode the column",
        "value.deserializer": "values are bytes: cast or decode the column",
    },
)
PRODUCER: Final = Settings(
    translated=_COMMON
    | {
        **_named(
            int,
            "batch.size",
            "buffer.memory",
            "delivery.timeout.ms",
            "linger.ms",
            "max.block.ms",
            "max.in.flight.requests.per.connection",
            "max.request.size",
            "transaction.timeout.ms",
        ),
        "acks": Setting("acks", _acks),
        "compression.type": Setting("compression_type", _compression),
        "enable.idempotence": Setting("enable_idempotence", _boolean),
        **{f"compression.{codec}.level": Setting("compression_level", int) for codec in ("gzip", "lz4", "zstd")},
    },
    ignored=_COMMON_IGNORED
    | {"partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "retries"},
    refused={
        "interceptor.classes": "there are no interceptors: a Python sink runs no Java classes",
        "key.serializer": "keys are bytes or strings: cast the column",
        "partitioner.class": "set the column partition: a Python sink runs no Java classes",
        "partitioner.ignore.keys": "set the column partition",
        "transactional.id": "set transactionalIdPrefix, from which every writer makes its own",
        "value.serializer": "values are bytes or strings: cast the column",
    },
)


def kafka_settings(options: Mapping[str, str]) -> dict[str, str]:
    """A query's options with the prefix `kafka.` (in any case), without the prefix, in lower case."""
    return {name[len(PREFIX) :].lower(): value for name, value in options.items() if name.lower().startswith(PREFIX)}


def client_options(options: Mapping[str, str], settings: Settings) -> dict[str, Any]:
    """Options of Ottla's client for a query's `kafka.` options, according to `settings`.

    Raises InvalidOptionError for an unknown or refused setting, for an invalid value, and if kafka.bootstrap.servers
    is missing.
    """
    found: dict[str, Any] = {}
    for name, text in kafka_settings(options).items():
        if name in settings.ignored or changes_nothing(name, text):
            continue
        setting = settings.translated.get(name) or _SECURITY.get(name)
        if setting is None:
            shown = Secret(text) if name.startswith(SECURITY) else text
            raise refuse(PREFIX + name, shown, _reason(name, settings))
        try:
            found[setting.option] = setting.parse(text)
        except ValueError as error:
            rule = str(error) if str(error).startswith("must") else "must be a whole number"
            raise refuse(PREFIX + name, text, rule) from None
    if "bootstrap_servers" not in found:
        option = "kafka.bootstrap.servers"
        raise InvalidOptionError(option, f"option {option} must be set: host:port of one or more brokers")
    _check_security(found)
    return found


def _check_security(client: Mapping[str, Any]) -> None:
    """Raise InvalidOptionError, with the name of the setting, if those of TLS and SASL do not go together."""
    try:
        SecurityOptions(**{name: client[name] for name in SECURITY_OPTIONS if name in client})
    except InvalidOptionError as error:
        name = PREFIX + error.option.replace("_", ".")
        raise InvalidOptionError(name, str(error).replace(error.option, name, 1)) from None


def _reason(name: str, settings: Settings) -> str:
    if name in settings.refused:
        return settings.refused[name]
    if (instead := _instead(name, settings)) is not None:
        return instead
    near = difflib.get_close_matches(name, [*settings.translated, *settings.ignored, *_SECURITY], 1, 0.7)
    return f"unknown; did you mean {PREFIX}{near[0]}?" if near else "no client setting has this name"


def _instead(name: str, settings: Settings) -> str | None:
    """The advice for a name that Kafka has or had (protocol.classic_names); None for other names."""
    row = classic_name(name)
    if row is None:
        return None
    reader, kind = (Reader.CONSUMER, "source") if settings is CONSUMER else (Reader.PRODUCER, "sink")
    today = row.homes.get(reader, ())
    for one in today:
        if one in settings.refused:
            return settings.refused[one]
    if today and all(one in settings.translated or one in settings.ignored for one in today):
        return "use " + " and ".join(PREFIX + one for one in today)
    # Not the names for Python's clients, which a query cannot use.
    of_brokers = elsewhere(row, (Reader.BROKER, Reader.TOPIC))
    return of_brokers or ("" if row.homes else row.hint) or f"the {kind} has no such setting"
