"""The examples of examples/testing run as they are: each group in one process, as a user runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.broker import ROOT
from support.deadlines import DEADLINE_S
from support.doc_scripts import dead_links, pytest_command
from support.programs import example_library, go_with, node
from support.spark import QUICK_START

FOLDER = ROOT / "examples" / "testing"
TOGETHER = (
    "django_service",
    "fastapi_service",
    "with_aiokafka",
    "with_confluent_kafka",
    "with_faststream",
    "with_kafka_python",
)
"""The examples that run in one process."""
ALONE = ("with_faust", "with_go", "with_java", "with_kafkajs", "with_spark")
GO_PATH = Path("/usr/share/gocode")
"""Where Debian's packages of Go libraries are."""
FAUST = ROOT / "build" / "faust"
"""The environment of with_faust, which `make setup-examples` makes."""


def run_pytest(python, folders, report, **variables):
    """Run the tests of these examples, which must pass; return the folders of those that were not skipped."""
    done = subprocess.run(
        [*pytest_command(python), f"--junitxml={report}", *folders],
        cwd=FOLDER,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | variables,
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return [case.get("classname", "").split(".")[0] for case in cases if case.find("skipped") is None]


@pytest.fixture(scope="module")
def passed(tmp_path_factory):
    """The folders of the tests that passed together."""
    return run_pytest(sys.executable, TOGETHER, tmp_path_factory.mktemp("examples") / "report.xml")


@pytest.mark.parametrize("folder", TOGETHER)
def test_an_example(folder, passed):
    assert folder in passed


def test_spark(tmp_path):
    java = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {QUICK_START}".strip()
    assert run_pytest(sys.executable, ["with_spark"], tmp_path / "report.xml", JDK_JAVA_OPTIONS=java) == ["with_spark"]


def test_faust(tmp_path):
    example_library(FAUST)
    assert run_pytest(FAUST / "bin" / "python", ["with_faust"], tmp_path / "report.xml") == ["with_faust"]


def test_kafkajs(tmp_path):
    program = node()
    example_library(FOLDER / "with_kafkajs" / "node_modules" / "kafkajs")
    shutil.copytree(FOLDER / "with_kafkajs", tmp_path, dirs_exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "testing", "run", "--", program, "--test"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass 1\n" in done.stdout  # what is before it depends on the version of Node


def test_go(tmp_path):
    """With Debian's package of kafka-go: the example is no Go module, so nothing is fetched."""
    program = go_with(GO_PATH / "src" / "github.com" / "segmentio" / "kafka-go")
    shutil.copytree(FOLDER / "with_go", tmp_path, dirs_exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "testing", "run", "--", program, "test", "-v"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "GO111MODULE": "off", "GOPATH": str(GO_PATH)},
        capture_output=True,
        text=True,
        timeout=5 * DEADLINE_S,  # the first time, Go compiles its own library
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--- PASS: TestEveryOrderIsBilled" in done.stdout


def test_no_example_is_left_out():
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert folders == {*TOGETHER, *ALONE}


@pytest.mark.parametrize("folder", [".", *TOGETHER, *ALONE])
def test_links_have_existing_targets(folder):
    assert dead_links(FOLDER / folder / "README.md") == []
