"""Client settings beside the profile: those of `--command-config FILE`, and security from environment variables.

The file is a properties file, as Kafka's tools take it. A name that Kafka's clients have and Ottla's do not is reported
and ignored; one of TLS or SASL is refused, because a client without it would be less safe than the user thinks.
`OTTLA_SECURITY_PROTOCOL`, `OTTLA_SSL_…` and `OTTLA_SASL_…` are settings of TLS and SASL, with `_` for dots.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from client.wire.java_security import SECURITY, changes_nothing
from ottla.command_line import client_settings
from ottla.command_line.client_settings import Value
from ottla.command_line.failure import CommandError, suggest
from ottla.command_line.output import discard

_VARIABLES: Final = ("OTTLA_SECURITY_", "OTTLA_SSL_", "OTTLA_SASL_")


def read_file(file: Path) -> tuple[dict[str, Value], list[str]]:
    """Return the settings of a properties file, and the names that have no effect. Raises CommandError."""
    from broker.settings.properties import read_properties  # takes 10 ms; most commands have no such file
    from storage.setting import ConfigError

    try:
        texts = read_properties(file)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    known = client_settings.names()
    used: dict[str, object] = {}
    ignored: list[str] = []
    for name, text in texts.items():
        if name in known or (name.startswith(SECURITY) and not changes_nothing(name, text)):
            used[name] = text
        else:
            ignored.append(name)
    try:
        return client_settings.typed(used), ignored
    except CommandError as error:
        raise CommandError(f"{file}: {error}") from error


def of_environment(environment: Mapping[str, str] = os.environ) -> dict[str, Value]:
    """Return the security settings of environment variables. Raises CommandError for a variable without a setting."""
    known = {"OTTLA_" + name.upper().replace(".", "_"): name for name in _security_names()}
    given = {name: text for name, text in environment.items() if name.startswith(_VARIABLES) and text}
    for variable in given:
        if variable not in known:
            raise CommandError(f"the environment variable {variable} is no setting{suggest(variable, sorted(known))}")
    return client_settings.typed({known[variable]: text for variable, text in given.items()})


def report(file: Path, ignored: list[str]) -> None:
    """Say on standard error which settings of a file have no effect."""
    if ignored:
        try:
            print(f"{file}: no effect: {', '.join(sorted(ignored))}", file=sys.stderr)
        except OSError:  # the terminal is closed
            discard(sys.stderr)


def _security_names() -> list[str]:
    return [name for name in client_settings.names() if name.startswith(SECURITY)]
