"""Two rounds of `make soak`, under a few faults, with everything that it judges. A failure prints its seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.broker import ROOT
from support.counts import full_only
from support.seeds import chosen_seed

ROUNDS = 2
FAULTS = 4


@full_only
@pytest.mark.timeout(1800)
def test_two_rounds_keep_what_was_promised(tmp_path: Path) -> None:
    words = {"--seed": chosen_seed(1), "--rounds": ROUNDS, "--faults": FAULTS, "--directory": tmp_path / "soak"}
    command = [sys.executable, "-m", "support.soak", *(str(word) for pair in words.items() for word in pair)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    assert "ok transactions" in done.stdout
