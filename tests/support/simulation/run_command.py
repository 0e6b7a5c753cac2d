"""Runs seeds in a process of their own, as `make simulate` does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def simulate(*arguments: object, hash_seed: str = "0") -> tuple[int, str]:
    """Run seeds; the exit code and what was printed."""
    done = subprocess.run(
        [sys.executable, "-m", "support.simulation", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def first_failure(*arguments: object, known: int, count: int) -> str:
    """What is printed of a seed that fails: the `known` one, or the first of `count` if that does no longer."""
    code, printed = simulate(*arguments, "--seed", known)
    if code == 0:
        code, printed = simulate(*arguments, "--count", count, "--stop", "--quiet")
    assert code == 1, printed
    assert "\nagain: make simulate" in printed, printed  # else the process itself has failed
    return printed


def failure(printed: str) -> str:
    """The line that says what was broken."""
    return next(line for line in printed.splitlines() if line.startswith("FAILED"))
