"""Checks of documents: their Python runs as a script, and the targets of their links exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

from support.broker import ROOT
from support.deadlines import DEADLINE_S


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


def console_examples(text: str) -> list[tuple[str, str]]:
    """The commands of a page's ```console blocks (lines that begin with "$ "), each with the lines that follow it."""
    return [
        example
        for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
        for example in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE)
    ]


def dead_links(page: Path) -> list[str]:
    """The links to missing files."""
    targets = re.findall(r"\]\(([^)#]+)", page.read_text())
    return [target for target in targets if "://" not in target and not (page.parent / target).exists()]
