"""Client settings in a profile: their names, their types, and the keyword arguments that they become.

A profile has the names of a client's properties file ("request.timeout.ms"); the constructor of a client has the same
names with underscores (`request_timeout_ms`). A setting applies to every client that has it: `linger.ms` to producers
only. Settings that a command decides itself, or that only a program can give (serializers), are refused.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from client.admin.options import AdminOptions
from client.consumer.options import ConsumerOptions
from client.errors import InvalidOptionError
from client.producer.options import ProducerOptions
from client.wire.cluster_options import ClusterOptions
from client.wire.security_options import SECRETS
from ottla.command_line.failure import CommandError, suggest
from protocol.classic_names import Reader, classic_name, replacement
from security.secret import HIDDEN, Secret, revealed

Value = str | int | float | bool
"""A setting's value in a profile."""

SERVERS: Final = "bootstrap.servers"

_CLIENTS: Final[tuple[type[ClusterOptions], ...]] = (AdminOptions, ProducerOptions, ConsumerOptions)
_SCALARS: Final = {str, int, float, bool, NoneType}
# Kafka's names that are not the field's name with dots.
_SECRETS: Final = frozenset(name.replace("_", ".") for name in SECRETS)
_KAFKA_NAMES: Final = {"api_timeout_ms": "default.api.timeout.ms"}
_DECIDED_BY_COMMANDS: Final = {
    "allow.auto.create.topics": "only `ottla produce` creates topics",
    "auto.offset.reset": "use --from-beginning or --offset of `ottla consume`",
    "group.id": "use --group of the command",
    "group.instance.id": "two commands at the same time must not have the same one",
    "transactional.id": "two commands at the same time must not have the same one",
}


def keywords(settings: Mapping[str, Value], options: type[ClusterOptions]) -> dict[str, Any]:
    """Return the settings that a client with these options has, as keyword arguments of its constructor."""
    names = {_kafka_name(field.name): field.name for field in fields(options)}
    return {names[name]: value for name, value in settings.items() if name in names}


def typed(settings: Mapping[str, object]) -> dict[str, Value]:
    """Return the settings with values of their types; a text such as "5000" is a number if the setting has a number.

    Raises CommandError for an unknown name (it names the nearest one) and for a value of another type.
    """
    found: dict[str, Value] = {}
    for name, value in settings.items():
        setting = _typed(name, value)
        found[name] = Secret(setting) if name in _SECRETS and isinstance(setting, str) else setting
    return found


def check(settings: Mapping[str, Value]) -> None:
    """Raise CommandError if a value breaks a rule of a client, such as a range."""
    for options in _CLIENTS:
        try:
            options(**keywords(settings, options))
        except InvalidOptionError as error:
            raise CommandError(str(error).replace(error.option, _kafka_name(error.option), 1)) from error


@cache
def names() -> dict[str, frozenset[type]]:
    """Return the settings that a profile can have, by Kafka's name, with the types of their values."""
    found: dict[str, frozenset[type]] = {}
    for options in _CLIENTS:
        hints = get_type_hints(options)
        for field in fields(options):
            name = _kafka_name(field.name)
            types = {str} if name == SERVERS else _scalars(hints[field.name])
            if field.init and types and name not in _DECIDED_BY_COMMANDS:
                found[name] = frozenset(types)
    return found


def _scalars(hint: Any) -> set[type]:
    """Return the types of a field's values; empty if a text cannot stand for every kind of value."""
    alternatives = set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
    return alternatives - {NoneType} if alternatives <= _SCALARS else set()


def _typed(name: str, value: object) -> Value:
    types = names().get(name)
    if types is None:
        if name in _DECIDED_BY_COMMANDS:
            raise CommandError(f"{name} is not a setting of a profile: {_DECIDED_BY_COMMANDS[name]}")
        raise CommandError(f"unknown client setting {name}{_hint(name)}")
    if name == SERVERS and isinstance(value, list):
        value = ",".join(map(str, value))
    if not isinstance(value, (str, int, float)):
        raise CommandError(f"{name}={HIDDEN if name in _SECRETS else value!r}: must be a text, a number, true or false")
    text = (
        revealed(value)
        if isinstance(value, str)
        else str(value).lower()
        if value is True or value is False
        else str(value)
    )
    if str in types:
        return text
    if bool in types:
        if text not in ("true", "false"):
            raise CommandError(f"{name}={text}: must be true or false")
        return text == "true"
    try:
        return int(text) if int in types else float(text)
    except ValueError:
        raise CommandError(f"{name}={text}: must be {'a whole number' if int in types else 'a number'}") from None


def _hint(name: str) -> str:
    """Return what to write instead of an unknown name."""
    dotted = name.replace("_", ".").replace("-", ".")
    row = classic_name(name)
    if row is not None and dotted not in names():
        readers = (Reader.ADMIN, Reader.PRODUCER, Reader.CONSUMER)
        today = dict.fromkeys(own for reader in readers for own in row.homes.get(reader, ()) if own in names())
        return f": use {' and '.join(today)}" if today else f": {replacement(row)}"
    return f" (did you mean {dotted}?)" if dotted in names() else suggest(name, sorted(names()))


def _kafka_name(field: str) -> str:
    return _KAFKA_NAMES.get(field, field.replace("_", "."))
