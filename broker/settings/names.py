"""Names that are not settings of a broker: which ones are refused everywhere, and with which hint.

A name that Kafka had earlier, the name of a topic's or client's setting, an unknown `ottla.*` name, and a name that
looks like a typing error are mistakes: the setting that the user wanted would have no effect. Another unknown name
causes a warning only if it is in a file, as in Kafka: files of other vendors contain settings of their plugins.

The error for a classic name has the current name for its purpose, from protocol/classic_names.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from protocol.classic_names import ClassicName, Reader, advice, classic_name
from security.jaas import LOGIN_MODULES
from storage.setting import HIDDEN, ConfigError, Setting

LISTENER_PREFIX = "listener.name."
OTTLA_PREFIX = "ottla."
AUTHORIZER_ZOOKEEPER_PREFIX = "authorizer.zookeeper."
"""Of Kafka's AclAuthorizer: settings for another ZooKeeper with other ACLs. Without them, the wrong ACLs would act."""
_OF_SECRETS = ("password", "passwd", "secret", "jaas", "credential")
"""An unknown name with one of these may be that of a secret: its value is not shown."""
_LIKE = 0.7
"""Similarity from which a name is a hint (difflib's ratio)."""


def refuse_classic(name: str, value: str | None) -> ConfigError | None:
    """Return the error for a former name of Kafka, or a name of its clients' settings; None for any other name."""
    row, instead = classic_name(name), advice(name, Reader.BROKER)
    if row is None or instead is None:
        return None
    readers = _readers(row)
    why = "this name is not read any more" if Reader.BROKER in readers else "not a setting of brokers"
    return ConfigError(name, value, f"{why}: {instead}")


def is_of_clients(name: str) -> bool:
    """Return whether this is the name of a setting that only clients have, or had."""
    row = classic_name(name)
    return row is not None and not {Reader.BROKER, Reader.TOPIC} & set(_readers(row))


def _readers(row: ClassicName) -> Collection[Reader]:
    return (row.of,) if row.of else row.homes or (Reader.BROKER,)


def refuse_unknown(
    name: str, value: str | None, settings: Mapping[str, Setting], topic_settings: Mapping[str, Setting]
) -> ConfigError:
    """Return the error for an unknown name, with the current name or the most similar known name."""
    close = similar_name(name, settings)
    is_similar_to_one = close is not None and settings[close].is_sensitive
    if is_similar_to_one or name.endswith(".key") or any(word in name.lower() for word in _OF_SECRETS):
        value = HIDDEN
    if (classic := refuse_classic(name, value)) is not None:
        return classic
    if name.startswith(AUTHORIZER_ZOOKEEPER_PREFIX):
        why = "not supported: ACLs are in the ZooKeeper of zookeeper.connect, under the same chroot"
        return ConfigError(name, value, why)
    if name in topic_settings:
        server = topic_settings[name].server
        hint = f": use {server[0]}" if server else ""
        return ConfigError(name, value, f"a setting of topics, not of a broker{hint}")
    return ConfigError(name, value, f"no setting has this name{'' if close is None else f'; the nearest is {close}'}")


def is_mistake(name: str, settings: Mapping[str, Setting], topic_settings: Mapping[str, Setting]) -> bool:
    """Return whether an unknown name must be refused wherever it is: see the module."""
    return (
        not name
        or name.startswith((OTTLA_PREFIX, AUTHORIZER_ZOOKEEPER_PREFIX))
        or name in topic_settings
        or refuse_classic(name, None) is not None
        or misspelled(name, settings) is not None
    )


def similar_name(name: str, settings: Mapping[str, Setting]) -> str | None:
    """Return the most similar known name, if it is similar."""
    known = [other for other in settings if other.startswith(OTTLA_PREFIX) == name.startswith(OTTLA_PREFIX)]
    plain = _plain(name)
    same = next((other for other in known if _plain(other) == plain), None)
    return same or next(iter(get_close_matches(name, known, 1, _LIKE)), None)


def misspelled(name: str, settings: Mapping[str, Setting]) -> str | None:
    """Return the known name that differs only in case and separators, or in one or two characters, if there is one."""
    close = similar_name(name, settings)
    if close is None or _plain(name) == _plain(close):
        return close
    return close if _edits(name, close) <= (2 if len(close) > 7 else 1) else None


def misspelled_for_listener(name: str, settings: Mapping[str, Setting]) -> str | None:
    """Return the name that was meant by an unknown one with a listener's prefix, if it looks like a typing error."""
    start, dot, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    if rest.partition(".")[0].upper() in LOGIN_MODULES:
        mechanism, _, rest = rest.partition(".")
        start += f".{mechanism}"
    close = misspelled(rest, settings)
    return None if close is None else f"{LISTENER_PREFIX}{start}{dot}{close}"


def _plain(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".")


def _edits(one: str, other: str) -> int:
    """Return how many insertions, deletions, replacements and swaps of neighbours turn one text into the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, character in enumerate(one, 1):
        before, last, row = row, before, [at]
        for end, wanted in enumerate(other, 1):
            edits = min(before[end] + 1, row[end - 1] + 1, before[end - 1] + (character != wanted))
            if at > 1 and end > 1 and character == other[end - 2] and one[at - 2] == wanted:
                edits = min(edits, last[end - 2] + 1)
            row.append(edits)
    return row[-1]
