"""The lines that a broker prints when it is ready, and the three commands to try.

`/api/cluster` of the console has the commands, too. `ottla cluster` parses the output of its brokers: the lines between
READY and TRY are `name   value`.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path

READY = "Ottla is ready."
TRY = "Try, in another terminal:"
DEFAULT_SERVERS = "127.0.0.1:9092"
"""The default bootstrap server of the `ottla` command."""


def command_name() -> str:
    """Return the command for `ottla`: its path if it is not on PATH (in a virtual environment that is not active)."""
    beside = Path(sys.executable).with_name("ottla")
    if shutil.which("ottla") is not None or not beside.exists():
        return "ottla"
    with contextlib.suppress(ValueError):
        return str(beside.relative_to(Path.cwd()))
    return str(beside)


def first_commands(bootstrap_servers: str, *, has_security: bool = False) -> list[str]:
    """Return shell commands that create a topic, write to it and read it.

    has_security: the listener has TLS or SASL, so the commands name a file with the settings of a client.
    """
    ottla = command_name()
    option = "" if bootstrap_servers == DEFAULT_SERVERS else f" --bootstrap-server {bootstrap_servers}"
    if has_security:
        option += " --command-config client.properties"
    return [
        f"{ottla} topics create hello --partitions 3{option}",
        f"echo 'k1:first message' | {ottla} produce hello --key-separator :{option}",
        f"{ottla} consume hello --from-beginning{option}",
    ]
