"""README.md says what is so: its snippets run, in order, against one broker, and print what stands there.

`console` blocks are run line by line and their output compared, in a folder with a virtual environment that is not
active, as `make run` leaves it; `python` blocks run as scripts; `properties` are read
as a broker reads them; of `sh` blocks, which install or start something, only the make targets are looked at. A
`py` block is a part of a program: what it says is run with docs/spark.md.
"""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from broker.settings.config import BrokerConfig
from broker.settings.properties import read_properties
from support.broker import ROOT, BrokerProcess
from support.deadlines import DEADLINE_S
from support.doc_scripts import dead_links, run_script
from support.programs import need_kcat

TEXT = (ROOT / "README.md").read_text()
BLOCKS = [
    (TEXT[: found.start()].count("\n") + 1, found[1], found[2])
    for found in re.finditer(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)
]
ACTIVATION = next((line for line in re.findall(r"^\$ (.*)", TEXT, re.M) if "activate" in line), "")
PRINTED = {
    "confluent_kafka": "b'k' b'a third message' 0\n",
    "aiokafka": "b'k' b'a fourth message' 0\n",
    "ottla": "[b'one', b'two']\n",
    "confluent_kafka, ottla": "None 0\n",
}


def blocks(language):
    return [pytest.param(body, id=f"line {line}") for line, kind, body in BLOCKS if kind == language]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("readme") / "data") as process:
        yield process


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as `make run` leaves it: `ottla`, the command of this checkout, is only in .venv/bin."""
    made = tmp_path_factory.mktemp("clone")
    venv.create(made / ".venv", symlinks=True, with_pip=False)
    ottla = made / ".venv" / "bin" / "ottla"
    ottla.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    ottla.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def environment(broker):
    """A shell's environment without `ottla` on PATH, in which `ottla` talks to the test's broker."""
    own = str(Path(sys.executable).parent)
    path = [name for name in os.environ["PATH"].split(os.pathsep) if name != own and not Path(name, "ottla").exists()]
    return os.environ | {
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": str(ROOT),
        "OTTLA_BOOTSTRAP_SERVER": broker.bootstrap,
    }


@pytest.mark.parametrize("body", blocks("console"))
def test_commands_print_the_documented_output(body, broker, environment, folder):
    for step in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, expected = step.partition("\n")
        if "kcat" in command:
            need_kcat()
        command = command.replace("127.0.0.1:9092", broker.bootstrap)
        # Every command has a shell of its own; the reader's shell remembers that the environment is active.
        script = f"{ACTIVATION}\n{command}"
        done = subprocess.run(
            ["bash", "-ec", script], env=environment, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S
        )
        assert done.returncode == 0, done.stderr
        if expected:
            assert done.stdout == expected, command


@pytest.mark.parametrize("body", blocks("python"))
def test_scripts_run(body, broker, tmp_path):
    libraries = ", ".join(re.findall(r"^from (\w+) import", body, re.M))
    assert run_script(body, broker.bootstrap, tmp_path) == PRINTED[libraries]


@pytest.mark.parametrize("body", blocks("properties"))
def test_properties_are_accepted_without_a_warning(body, tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(body)
    assert read_properties(path)
    assert BrokerConfig.load(path).warnings == []


@pytest.mark.parametrize("body", blocks("sh"))
def test_make_targets_exist(body):
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\S+)", body, re.M):
        assert f"\n{target}:" in makefile


def test_the_picture_shows_the_commands_of_the_first_block():
    """python docs/images/first_minute.py draws it again."""
    picture = "".join(ElementTree.parse(ROOT / "docs" / "images" / "first-minute.svg").getroot().itertext())
    shown = picture.replace("\xa0", " ")
    body = next(body for _, kind, body in BLOCKS if kind == "console")
    for line in body.replace(f"$ {ACTIVATION}\n", "").splitlines():
        assert line.removeprefix("$ ") in shown


def test_no_block_is_left_out():
    assert {kind for _, kind, _ in BLOCKS} == {"console", "py", "python", "properties", "sh"}
    assert TEXT.count("```") == 2 * len(BLOCKS)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/compatibility.md"])
def test_links_have_existing_targets(name):
    assert dead_links(ROOT / name) == []
