"""On a cluster the executors have what is sent to them, not this checkout: `--py-files` brings all that they need."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sysconfig
import venv
from functools import partial
from pathlib import Path

import pyspark
import pytest

from client import topic_partition
from client.admin.admin import Admin
from client.producer.producer import Producer
from ottla import py_files
from ottla.jvm.spark_environment import spark_environment
from support.broker import broker_process
from support.counts import full_only
from support.deadlines import DEADLINE_S
from support.spark import QUICK_START

PROGRAM = """\
import sys


from pyspark.sql import SparkSession
from pyspark_ottla import DefaultSource

servers = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(DefaultSource)


def where(batches):
    import pyarrow

    import client.topic_partition as one_of_ours

    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"found": [one_of_ours.__file__] * batch.num_rows})


def topic(name):
    read = spark.read.format("ottla").option("kafka.bootstrap.servers", servers)
    return read.option("subscribe", name).option("minPartitions", "4").load()


rows = topic("drafts")
print("WHERE", *{row.found for row in rows.mapInArrow(where, "found string").collect()})
written = rows.selectExpr("upper(cast(value AS string)) AS value").write.format("ottla").mode("append")
written.option("kafka.bootstrap.servers", servers).option("topic", "copies").save()
found = sorted(row.value.decode() for row in topic("copies").select("value").collect())
print("READ", len(found), found[0], found[-1])
spark.stop()
"""
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.executor.memory": "512m",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def without_us():
    """The variables of this process, without those that other tests have set for their Sparks."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def python_without_us(folder):
    """A Python that has all that is installed here, but this project, which is installed in a way of its own."""
    venv.create(folder)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    command = [python, "-c", "import client"]
    alone = subprocess.run(
        command, cwd=folder, env=without_us(), capture_output=True, text=True, timeout=10 * DEADLINE_S
    )
    assert "No module named 'client'" in alone.stderr
    return python


@full_only
@pytest.mark.timeout(600)
async def test_executors_without_access_to_the_checkout(tmp_path):
    python = python_without_us(tmp_path / "python")
    py_files.write_archive(tmp_path / "ottla.zip")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with broker_process(tmp_path / "data") as broker:
        async with Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topic("drafts", partitions=2)
            await admin.create_topic("copies", partitions=2)
        records = 20_000
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(records):
                producer.send_nowait("drafts", b"draft %06d" % number)
            await producer.flush()
        command = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            "--master",
            "local-cluster[2,1,1024]",
        ]
        for name, value in SETTINGS.items():
            command += ["--conf", f"{name}={value}"]
        command += ["--py-files", "ottla.zip", "program.py", broker.bootstrap]
        environment = (
            without_us()
            | spark_environment(tmp_path)
            | {
                "PYSPARK_PYTHON": str(python),
                "PYSPARK_DRIVER_PYTHON": str(python),
                "SPARK_WORKER_DIR": str(tmp_path / "work"),
            }
        )
        run = partial(
            subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=10 * DEADLINE_S
        )
        done = await asyncio.to_thread(run, command)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("WHERE", "READ")))
    assert said["READ"] == f"{records} DRAFT 000000 DRAFT {records - 1:06d}"
    assert said["WHERE"] == f"./ottla.zip/{topic_partition.__name__.replace('.', '/')}.py"
