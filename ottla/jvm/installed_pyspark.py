"""The installed pyspark: its jars, and its modules. It is found without importing it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ottla.command_line.failure import CommandError


def find_pyspark(needed_by: str, extra: str) -> Path:
    """Return the folder of the installed pyspark.

    needed_by, extra: what needs it, and the extra of Ottla to install. Raises CommandError, which says both.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise CommandError(f"{needed_by} needs pyspark, which is not installed: pip install 'ottla[{extra}]'")
    return Path(spec.origin).parent
