"""A real Spark on this machine, for tests: a session whose Python workers find this project."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from ottla.jvm.spark_environment import spark_environment

ROOT = Path(__file__).resolve().parents[2]
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for minutes: it compiles with the first compiler alone, and has no threads that collect."""
SETTINGS = {
    "spark.driver.extraJavaOptions": QUICK_START,
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


def prepare_environment(folder: Path) -> dict[str, str]:
    """Variables for Spark and its Python workers, which find this checkout; `folder` gets a Java."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return spark_environment(folder) | {"PYTHONPATH": os.pathsep.join(paths).rstrip(os.pathsep)}


def start_session(folder: Path, master: str = "local[2]", **settings: str) -> SparkSession:
    """A session of its own, whose warehouse and temporary files are in `folder`. Settings: names with _ for dots."""
    os.environ.update(prepare_environment(folder))
    builder = SparkSession.builder.master(master).appName("ottla tests")
    named = {name.replace("_", "."): value for name, value in settings.items()}
    places = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    for name, value in {**SETTINGS, **places, **named}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
