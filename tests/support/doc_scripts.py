"""Checks of documents: their Python runs as a script, and the targets of their links exist."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

from client.wire.security_options import SecurityOptions
from support.broker import ROOT
from support.deadlines import DEADLINE_S

SECURITY_OPTIONS = {one.name for one in dataclasses.fields(SecurityOptions)}
"""The options of every client that are on the page docs/security.md only."""


def run_script(body: str, bootstrap: str, folder: Path) -> str:
    """What a script prints, run in a folder, against a broker in place of the one on the page."""
    script = folder / "script.py"
    script.write_text(body.replace("127.0.0.1:9092", bootstrap))
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pytest_command(python: Path | str) -> list[str]:
    """How users start pytest. An environment that was made before the plugin existed does not know its entry point."""
    names = "from importlib.metadata import entry_points as e; print(*[one.name for one in e(group='pytest11')])"
    found = subprocess.run([python, "-c", names], capture_output=True, text=True, check=True).stdout.split()
    plugin = [] if "ottla" in found else ["-p", "ottla.testing.pytest_plugin"]
    return [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin]


def run_tests(body: str, folder: Path) -> None:
    """Run a page's file of tests with pytest, in a folder without settings; all tests must pass."""
    (folder / "test_page.py").write_text(body)
    done = subprocess.run(
        [*pytest_command(sys.executable), "--rootdir", str(folder), str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def console_examples(text: str) -> list[tuple[str, str]]:
    """The commands of a page's ```console blocks (lines that begin with "$ "), each with the lines that follow it."""
    return [
        example
        for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
        for example in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE)
    ]


def dead_links(page: Path) -> list[str]:
    """The links to missing files, and to missing headings of pages."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [
        f"{target}#{anchor}" if anchor else target
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text)
        if "://" not in target and not _is_there(page.parent / target if target else page, anchor)
    ]


def _is_there(target: Path, anchor: str) -> bool:
    if not target.exists() or not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text(), flags=re.MULTILINE)
    return anchor in [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]
