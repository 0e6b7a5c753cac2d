"""A real Spark on this machine, for tests: a session whose Python workers find this project."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from ottla.java import find_java

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.log.level": "ERROR",
}
WITHOUT_VECTORS = """#!/bin/sh
# Spark asks for a module that a reduced Java does not have, and does without.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def prepare_environment(folder: Path) -> dict[str, str]:
    """Variables for Spark and its Python workers; `folder` gets a Java that starts wherever there is one."""
    java = find_java()
    home = folder / "java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WITHOUT_VECTORS.format(java=java))
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return {
        "JAVA_HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def start_session(folder: Path, master: str = "local[2]", **settings: str) -> SparkSession:
    """A session of its own, whose warehouse and temporary files are in `folder`. Settings: names with _ for dots."""
    os.environ.update(prepare_environment(folder))
    builder = SparkSession.builder.master(master).appName("ottla tests")
    named = {name.replace("_", "."): value for name, value in settings.items()}
    places = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    for name, value in {**SETTINGS, **places, **named}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
