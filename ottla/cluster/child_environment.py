"""The environment of child processes that run Ottla."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGES = str(Path(__file__).resolve().parents[2])


def child_environment() -> dict[str, str]:
    """Return this process's environment, in which a Python finds the same Ottla."""
    paths = [_PACKAGES, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
