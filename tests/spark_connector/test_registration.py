"""Spark finds the source by its name."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from support.broker import ROOT
from support.counts import full_only
from support.deadlines import DEADLINE_S

JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.read.format("ottla").option("kafka.bootstrap.servers", "127.0.0.1:9").load().columns)
"""


def test_the_format_is_known_without_any_registration(spark):
    schema = spark.read.format("ottla").option("kafka.bootstrap.servers", "127.0.0.1:9").load().schema
    assert schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )


@pytest.mark.parametrize("name", ["includeHeaders", "INCLUDEHEADERS"])
def test_headers_are_a_column_if_requested(spark, name):
    field = spark.read.format("ottla").option(name, "true").load().schema["headers"]
    assert field.dataType.simpleString() == "array<struct<key:string,value:binary>>"


@full_only
@pytest.mark.parametrize(("is_named", "code"), [(True, 0), (False, 1)])
def test_a_program_whose_environment_is_not_active_names_its_python(spark, tmp_path, is_named, code):
    """Spark starts the `python3` of PATH, which here has no Ottla, unless the lines of docs/spark.md name another."""
    page = (ROOT / "docs" / "spark.md").read_text()
    named = re.search(r"```py\n(.*?PYSPARK_PYTHON.*?)```", page, re.DOTALL)[1]
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    script = tmp_path / "job.py"
    script.write_text((named if is_named else "") + JOB)
    # Java is that of the fixture `spark`, which is in os.environ, too.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=inherited | {"PATH": f"{other.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == code, done.stderr
    assert ("'timestampType'" in done.stdout) is is_named
    assert ("DATA_SOURCE_NOT_FOUND" in done.stderr) is not is_named
