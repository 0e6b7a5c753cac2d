"""Names that are not allowed in a properties file: unknown names, and classic names that Kafka has removed.

The error for a classic name has the current name for its purpose, from protocol/classic_names.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from protocol.classic_names import Reader, advice, classic_name
from storage.setting import ConfigError, Setting

LISTENER_PREFIX = "listener.name."


def refuse_classic(name: str, value: str | None) -> ConfigError | None:
    """Return the error for a former name of Kafka, or a name of its clients' settings; None for any other name."""
    row, instead = classic_name(name), advice(name, Reader.BROKER)
    if row is None or instead is None:
        return None
    readers: Collection[Reader] = (row.of,) if row.of else row.homes or (Reader.BROKER,)
    if Reader.AUTHORIZER in readers:
        why = "not supported"
    else:
        why = "this name is not read any more" if Reader.BROKER in readers else "not a setting of brokers"
    return ConfigError(name, value, f"{why}: {instead}")


def refuse_unknown(
    name: str, value: str, settings: Mapping[str, Setting], topic_settings: Mapping[str, Setting]
) -> ConfigError:
    """Return the error for an unknown name, with the current name or the most similar known name."""
    if (classic := refuse_classic(name, value)) is not None:
        return classic
    if name in topic_settings:
        server = topic_settings[name].server
        hint = f": use {server[0]}" if server else ""
        return ConfigError(name, value, f"a setting of topics, not of a broker{hint}")
    known = [other for other in settings if other.startswith("ottla.") == name.startswith("ottla.")]
    close = get_close_matches(name, known, 1, 0.7)
    hint = f"; the nearest is {close[0]}" if close else ""
    return ConfigError(name, value, f"no setting has this name{hint}")
