"""The Python that Spark starts does not compile pyspark, because it is the installed one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.functions import udf

from ottla.command_line.failure import CommandError
from ottla.jvm import installed_pyspark
from ottla.jvm.spark_environment import spark_environment

INSTALLED = Path(pyspark.__file__).parent
ARCHIVE = f"{INSTALLED}/python/lib/pyspark.zip"


def test_a_task_of_spark_uses_the_installed_pyspark(spark):
    def where():
        import pyspark

        return pyspark.__file__

    assert spark.range(1).select(udf(where, useArrow=False)()).first()[0] == pyspark.__file__


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{archive}:/a b:/c*:{archive}:/d", "/a b:/c*:/d"),
        ("{archive}", ""),
        ("/a", "/a"),
        ("", ""),
        (
            "{installed}-other/lib:/opt/spark/python/lib/pyspark.zip",
            "{installed}-other/lib:/opt/spark/python/lib/pyspark.zip",
        ),
    ],
    ids=["archives among others", "nothing else", "no archive", "no path", "archives of another Spark"],
)
def test_the_archives_are_no_longer_on_the_path(before, after, tmp_path):
    places = {"archive": ARCHIVE, "installed": INSTALLED}
    python = spark_environment(tmp_path / "a folder")["PYSPARK_PYTHON"]
    program = "import os, sys; print(os.environ['PYTHONPATH'], *sys.argv, sys.executable, sep='|')"
    done = subprocess.run(
        [python, "-c", program, "one argument", "*"],
        env=os.environ | {"PYTHONPATH": before.format(**places)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{after.format(**places)}|-c|one argument|*|{sys.executable}"


def test_a_second_call_writes_the_same_scripts(tmp_path, monkeypatch):
    first = spark_environment(tmp_path)
    texts = [path.read_text() for path in (tmp_path / "java" / "bin" / "java", tmp_path / "spark-python")]
    for name, value in first.items():
        monkeypatch.setenv(name, value)
    assert spark_environment(tmp_path) == first
    assert [path.read_text() for path in (tmp_path / "java" / "bin" / "java", tmp_path / "spark-python")] == texts


def test_an_environment_without_pyspark(tmp_path, monkeypatch):
    monkeypatch.setattr(installed_pyspark, "find_spec", lambda name: None)
    with pytest.raises(CommandError, match=r"pip install 'ottla\[spark\]'"):
        spark_environment(tmp_path)
