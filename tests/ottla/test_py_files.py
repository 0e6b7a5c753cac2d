"""The archive for `spark-submit --py-files`: Python imports the client and the source from it."""

import subprocess
import sys
import zipfile

import pytest

from client import topic_partition
from client.consumer import reader
from ottla import py_files
from protocol.messages import fetch
from spark_connector import range_reader


def path_in_archive(module):
    return module.__name__.replace(".", "/") + ".py"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "ottla.zip"
    assert py_files.main([str(path)]) == 0
    return path


def test_the_archive_has_every_package_and_nothing_compiled(archive):
    names = zipfile.ZipFile(archive).namelist()
    modules = [path_in_archive(module) for module in (reader, fetch, range_reader, topic_partition)]
    assert {*modules, "pyspark_ottla/__init__.py"} <= set(names)
    assert len(names) == len(set(names))
    assert all(name.endswith((".py", ".pyi")) for name in names)


def test_python_imports_from_the_archive(archive):
    """By a relative path, as on Spark's executors."""
    modules = (reader.__name__, range_reader.__name__)
    script = (
        f"import sys; sys.path.insert(0, './{archive.name}')\n"
        f"import {modules[0]} as a, {modules[1]} as b; print(a.__file__, b.__file__)"
    )
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, cwd=archive.parent, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [f"./{archive.name}/{path_in_archive(one)}" for one in (reader, range_reader)], (
        done.stderr
    )


@pytest.mark.parametrize("arguments", [[], ["ottla.whl"], ["a.zip", "b.zip"]])
def test_the_archive_is_a_zip(arguments, capsys):
    assert py_files.main(arguments) == 2
    assert "ARCHIVE.zip" in capsys.readouterr().err
