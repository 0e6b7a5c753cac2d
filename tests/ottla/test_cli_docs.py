"""The examples of docs/cli.md, run in their order; what they print is as the page shows but for numbers
that vary.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.broker import broker_process
from support.deadlines import DEADLINE_S
from support.doc_scripts import console_examples
from support.zookeeper import new_chroot, shared_zookeeper

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cli.md"
# Ids, times, checksums and measurements are different in every run; so is where the data lies.
VARYING = [
    (r"id [\w-]{22}\b", "id ID"),
    (r"\b\d{13}\b", "TIME"),
    (r"crc: \d+", "crc: CRC"),
    (r"producer_id: \d+", "producer_id: ID"),
    (r"/[\w./-]*/orders-", "DATA/orders-"),
]


def normal(text):
    for pattern, replacement in VARYING:
        text = re.sub(pattern, replacement, text)
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.timeout(400)  # some fifty commands, one after the other
def test_the_page_tells_the_truth(tmp_path, monkeypatch, ottla):
    shim = tmp_path / "bin" / "ottla"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    shim.chmod(0o755)
    ran = console_examples(PAGE.read_text())
    assert len(ran) >= 20

    def printed_by(command):
        """What a command prints: in this process, unless it has a pipe or a redirection, which a shell makes."""
        if command.startswith("ottla ") and not set(re.sub("'.*?'", "", command)) & set("|<>"):
            result = ottla(*shlex.split(os.path.expandvars(command))[1:])
            return result.err + result.out
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 0, command + done.stderr
        return done.stderr + done.stdout

    with broker_process(tmp_path / "data") as broker:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.bootstrap)
        monkeypatch.setenv("OTTLA_ZOOKEEPER", f"{shared_zookeeper().connect}{new_chroot()}")
        monkeypatch.setenv("DATA", str(broker.log_dir))
        for command, shown in ran:
            printed = printed_by(command)
            if "perf" in command:  # the names of the figures are the same, and how many records
                texts = [re.sub(r"\b\d+\.\d+\b", "N", text.replace(",", "")) for text in (printed, shown)]
                names = [re.findall(r"[a-z][\w .]*\w|\b20000\b", text) for text in texts]
                assert names[0] == names[1], command
            else:
                assert normal(printed) == normal(shown), command
