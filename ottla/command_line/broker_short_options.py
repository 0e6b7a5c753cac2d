"""`--port`, `--data-dir` and `--log-level` of `ottla broker`: short forms of `--set`.

A short form is for a setting that nothing else sets. If `--set`, the environment or the properties file also sets it,
the command refuses and names both; otherwise `--port` would replace a host, a security protocol or further listeners.
Only `--log-level` overrides the file: it is for a run in which one wants to see more, or less.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.command_line.failure import CommandError

SHORT_OPTIONS: Final = {
    "--port": ("listeners",),
    "--data-dir": ("log.dirs", "log.dir"),
    "--log-level": ("ottla.log.level",),
}
"""The options, with the settings that must not be set, too; the option sets the first one."""


def long_forms(short: Mapping[str, str], path: Path | None, settings: Sequence[str]) -> list[str]:
    """Return "name=value" for each of these options and its value.

    path: the properties file. settings: the values of `--set`. Raises CommandError for a wrong value, and for a setting
    that `--set`, the environment or the file has.
    """
    if not short:
        return []
    given = {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in settings)}
    elsewhere = _elsewhere(path)
    for option, value in short.items():
        for name in SHORT_OPTIONS[option]:
            if name in given:
                raise CommandError(f"{option} {value} and --set {name}={given[name]} set the same: use one of them")
            if name in elsewhere and option != "--log-level":
                raise CommandError(f"{option} {value}: {elsewhere[name]}; use --set {name}=… to override it")
    return [f"{SHORT_OPTIONS[option][0]}={_value(option, value, path)}" for option, value in short.items()]


def _elsewhere(path: Path | None) -> dict[str, str]:
    """Return where the settings of the file and of the environment, which overrides it, are from."""
    from broker.settings.environment import environment_settings  # the short forms are rare, `--help` needs no broker
    from broker.settings.properties import read_properties

    # The caller reports a missing file.
    in_file = read_properties(path) if path is not None and path.is_file() else {}
    variables = environment_settings(os.environ).variables
    return {name: f"{path} has {name}={value}" for name, value in in_file.items()} | {
        name: f"the environment sets {variable}" for name, variable in variables.items()
    }


def _value(option: str, text: str, path: Path | None) -> str:
    """Return the value of the setting. Like Kafka, a broker with a file listens on all addresses by default."""
    if option == "--log-level":
        return text
    if option == "--data-dir":
        if not text or "," in text:
            raise CommandError(f"{option} {text!r}: must be one directory; --set log.dirs=… takes several")
        return text
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise CommandError(f"{option} {text!r}: must be a number from 0 to 65535 (0: a free port)")
    return f"PLAINTEXT://{'127.0.0.1' if path is None else ''}:{text}"
