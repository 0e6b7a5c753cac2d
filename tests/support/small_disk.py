"""A real disk of a few megabytes: a function runs in a process with mounts of its own, on a tmpfs."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from support.broker import ROOT
from support.deadlines import DEADLINE_S

_NOT_MOUNTED = 77


def run_on_small_disk(module: str, function: str, disk: Path, size: int, *arguments: str) -> None:
    """Call `function(disk, *arguments)` of a module with a tmpfs of `size` bytes at `disk`.

    The test fails if the function raises, and is skipped on machines that do not allow the mount.
    """
    paths = [str(ROOT), str(ROOT / "tests")]
    code = f"import sys; sys.path[:0] = {paths!r}; from support.small_disk import main; main(*sys.argv[1:])"
    said = []
    for unshare in (["unshare", "-rm"], ["unshare", "-m"]):  # as root of a user namespace, or as root
        command = [*unshare, sys.executable, "-c", code, module, function, str(disk), str(size), *arguments]
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=2 * DEADLINE_S, check=False
            )
        except FileNotFoundError as error:
            said.append(str(error))
            continue
        said.append(f"{done.stdout}\n{done.stderr}")
        if done.returncode == 0:
            return
        may_not_unshare = "unshare:" in done.stderr and "Traceback" not in done.stderr
        if done.returncode != _NOT_MOUNTED and not may_not_unshare:
            pytest.fail(said[-1])
    pytest.skip(f"no disk can be mounted here, the tests with an injected one have to do: {said}")


def main(module: str, function: str, disk: str, size: str, *arguments: str) -> None:
    """Mount the tmpfs and call the function, in the new process."""
    Path(disk).mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr)
        sys.exit(_NOT_MOUNTED)
    getattr(importlib.import_module(module), function)(Path(disk), *arguments)
