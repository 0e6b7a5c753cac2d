"""A Java that reads its classes from archives (class data sharing): a Spark starts with half the CPU.

    python -m support.java_archives FOLDER

FOLDER becomes a JAVA_HOME with a script `bin/java`, which starts the machine's Java, and with an archive of the classes
of Spark and one of those of ZooKeeper. A Java takes an archive only if it has the same version and the same jars. One
that cannot write archives (it has none of its own classes) starts as ever.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from shlex import quote

from pyspark.sql import SparkSession

from ottla import testing
from ottla.jvm.java import find_java
from ottla.zookeeper.server import ZooKeeperEnsemble
from support.spark import start_session

_RECORD = "RECORD_JAVA_CLASSES"
_SCRIPT = f"""#!/bin/sh
archive=
for argument do
    case $argument in
        org.apache.spark.launcher.*) break ;;
        org.apache.spark.*) archive={{folder}}/spark.jsa; break ;;
        org.apache.zookeeper.*) archive={{folder}}/zookeeper.jsa; break ;;
    esac
done
if [ -n "$archive" ]; then
    if [ -n "${_RECORD}" ]; then
        set -- -XX:ArchiveClassesAtExit="$archive" "$@"
    elif [ -f "$archive" ]; then
        set -- -XX:SharedArchiveFile="$archive" "$@"
    fi
    set -- -Xlog:disable -Xlog:all=error:stderr "$@"  # no warning about classes that have no place in an archive
fi
exec {{java}} "$@"
"""


def write_java(folder: Path) -> None:
    """Make `folder` a JAVA_HOME without archives. Raises CommandError if there is no Java."""
    shutil.rmtree(folder, ignore_errors=True)  # before one is looked for: JAVA_HOME may name this folder
    (folder / "bin").mkdir(parents=True)
    java = find_java().resolve()
    script = folder / "bin" / "java"
    script.write_text(_SCRIPT.format(folder=quote(str(folder)), java=quote(str(java))))
    script.chmod(0o755)
    if (release := java.parent.parent / "release").exists():  # says the version
        shutil.copy(release, folder)


async def _use_zookeeper() -> None:
    async with ZooKeeperEnsemble(sync=False):
        pass


def _use_spark(spark: SparkSession, folder: Path) -> None:
    """What most tests do, for the classes that it loads."""
    with testing.broker() as broker:
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        rows = spark.range(100).selectExpr("cast(id as string) key", "cast(id as string) value", "'t' topic")
        rows.write.format("ottla").mode("append").options(**options).save()
        options |= {"subscribe": "t", "startingOffsets": "earliest"}
        spark.read.format("ottla").options(**options).load().groupBy("partition").count().collect()
        stream = spark.readStream.format("ottla").options(**options).load().repartition(2)
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "rows")).awaitTermination()
        spark.read.parquet(str(folder / "rows")).count()


def _stop(spark: SparkSession) -> None:
    """Stop a session and wait for the end of its Java, which writes the archive then."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def main(folder: Path) -> None:
    """Write the folder."""
    write_java(folder)
    os.environ |= {"JAVA_HOME": str(folder), _RECORD: "1"}
    asyncio.run(_use_zookeeper())
    with tempfile.TemporaryDirectory() as temporary:
        spark = start_session(Path(temporary))
        _use_spark(spark, Path(temporary))
        _stop(spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
