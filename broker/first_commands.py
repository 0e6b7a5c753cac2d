"""What a broker says when it is ready, and the three commands to try on it.

The commands also stand on the page of a console without topics. `ottla cluster` reads what its brokers say: the lines
between READY and TRY are `name   value`.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path

READY = "Ottla is ready."
TRY = "Try, in another terminal:"
DEFAULT_SERVERS = "127.0.0.1:9092"
"""Where the `ottla` command looks for a broker by itself."""


def command_name() -> str:
    """What to type for `ottla`: where it is not on the path (a virtual environment that is not active), its file."""
    beside = Path(sys.executable).with_name("ottla")
    if shutil.which("ottla") is not None or not beside.exists():
        return "ottla"
    with contextlib.suppress(ValueError):
        return str(beside.relative_to(Path.cwd()))
    return str(beside)


def first_commands(bootstrap_servers: str) -> list[str]:
    """Create a topic, write to it, read it, as lines for a shell."""
    ottla = command_name()
    option = "" if bootstrap_servers == DEFAULT_SERVERS else f" --bootstrap-server {bootstrap_servers}"
    return [
        f"{ottla} topics create hello --partitions 3{option}",
        f"echo 'k1:first message' | {ottla} produce hello --key-separator :{option}",
        f"{ottla} consume hello --from-beginning{option}",
    ]
