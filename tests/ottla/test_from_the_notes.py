"""docs/from-the-notes.md: its commands and programs do what stands there, and all that it names exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from broker.settings.config import BROKER_SETTINGS
from protocol.classic_names import classic_name
from storage.log.config import TOPIC_SETTINGS
from support.broker import ROOT, broker_process
from support.checkout import checkout_only
from support.deadlines import DEADLINE_S
from support.doc_scripts import console_examples, dead_links, run_script
from support.zookeeper import new_chroot, shared_zookeeper

PATH = ROOT / "docs" / "from-the-notes.md"
PAGE = PATH.read_text()
PACKAGES = "broker|client|examples|ottla|protocol|registry|replication|security|storage"
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| The note")]
# Fields of znodes and the like, which look like settings.
NOT_SETTINGS = re.compile(r"\.(py|md|index|log)$|^(Producer|Consumer|ListenerContainer|Log)\.")


def parts():
    """What is to be run, in the order of the page: ("console", its text) and ("python", the script, what it prints)."""
    blocks = re.findall(r"```(console|python|sh|)\n(.*?)```", PAGE, flags=re.DOTALL)
    for position, (kind, text) in enumerate(blocks):
        if kind == "console":
            yield kind, f"```console\n{text}```", ""
        elif kind == "python":
            assert blocks[position + 1][0] == "", "a program is followed by what it prints"
            yield kind, text, blocks[position + 1][1]


def normal(text):
    text = re.sub(r"\b\d{13}\b", "TIME", text)
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.timeout(400)  # some thirty processes, one after the other
def test_commands_and_programs(tmp_path, monkeypatch):
    shim = tmp_path / "bin" / "ottla"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    shim.chmod(0o755)
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    given = re.findall(r"--set ([a-z0-9.]+)=(\S+)", re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)[1])
    settings = {name.replace(".", "_"): value.replace("$OTTLA_ZOOKEEPER", connect) for name, value in given}
    assert len(settings) == 5
    ran = []
    with broker_process(tmp_path / "data", **settings) as broker:
        monkeypatch.setenv("PATH", f"{shim.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.bootstrap)
        monkeypatch.setenv("OTTLA_ZOOKEEPER", connect)
        for kind, text, printed in parts():
            ran.append(kind)
            if kind == "python":
                assert run_script(text, broker.bootstrap, tmp_path) == printed
                continue
            for command, shown in console_examples(text):
                done = subprocess.run(
                    ["bash", "-c", command],
                    capture_output=True,
                    text=True,
                    cwd=tmp_path,
                    timeout=DEADLINE_S,
                    check=False,
                )
                assert normal(done.stdout) == normal(shown), command + done.stderr
    assert ran == ["console", "console", "python", "console", "console", "python"]


@checkout_only
def test_tests_and_files_exist():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 100
    for file, function in named:
        assert re.search(rf"^(async )?def {function}\(", (ROOT / file).read_text(), re.MULTILINE), (file, function)
    files = re.findall(rf"`((?:{PACKAGES})/[\w/]*(?:\.py)?)`", PAGE)
    assert len(files) > 40
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert dead_links(PATH) == []


def test_settings_exist():
    names = {
        name for name in re.findall(r"`([a-z]+(?:\.[a-z0-9]+)+)(?:=[^`]*)?`", PAGE) if not NOT_SETTINGS.search(name)
    }
    assert len(names) > 25
    assert {
        name
        for name in names
        if name not in BROKER_SETTINGS and name not in TOPIC_SETTINGS and classic_name(name) is None
    } == set()


def test_every_row_says_where_and_what_shows_it():
    assert len(ROWS) > 100
    for row in ROWS:
        cells = [
            cell.strip() for cell in re.sub(r"`[^`]*`", lambda code: code[0].replace("|", "/"), row).split("|")[1:-1]
        ]
        assert len(cells) == 4, row
        says, where, shown, differs = cells
        assert says
        # Without a test there is what tells why, or where it is told.
        assert (where and shown) or differs.startswith("Not there"), row
        assert "::" in shown or "](" in shown or differs.startswith("Not there"), row


def test_every_note_has_its_part():
    for note in ("000", "001", "002", "003", "004"):
        assert re.search(rf"\b{note}\b", PAGE)
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    for heading in headings[1:]:
        anchor = re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        assert f"](#{anchor})" in PAGE, heading
