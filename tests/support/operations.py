"""An operator: runs the `console` examples of docs/operations.md against brokers of this machine.

`ottla` commands run in this process, `curl` reads the console, and `systemctl` and `mount` act on the brokers of the
test. Anything else is a shell command. A command that only shows something is repeated until it prints the page's text.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from ottla.cli import main
from support.broker import ROOT, BrokerProcess
from support.deadlines import DEADLINE_S
from support.doc_scripts import console_examples
from support.polling import until_blocking

PAGE = ROOT / "docs" / "operations.md"
_MACHINE = re.compile(r" +# on (?:broker (\d)|.*)$")


def section(heading: str) -> str:
    """Return the text of a section of the page, up to the next heading."""
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    return str(found)


class Operator:
    """Runs the commands of a section."""

    def __init__(self, brokers: Mapping[int, BrokerProcess], folder: Path, paths: Mapping[str, str]) -> None:
        """brokers: by id. folder: the working directory. paths: texts of the page, with what they are in the test."""
        self.brokers = brokers
        self.on_service: dict[str, Callable[[], None]] = {}
        """Functions for `systemctl start NAME` of other services, and for `mount PATH`."""
        self._folder = folder
        self._paths = dict(paths)

    def run(self, text: str) -> None:
        """Run the examples of a text in their order."""
        for command, shown in console_examples(text):
            self._run_one(command, shown.replace("\n\n", "\n"))

    def _run_one(self, line: str, shown: str) -> None:
        machine = _MACHINE.search(line)
        command = line[: machine.start()] if machine else line
        if command.startswith(("systemctl ", "mount ")):
            self._act(command.split(), int(machine[1]) if machine and machine[1] else None)
        elif shown and not re.search(r"^curl | describe ", command):
            assert self._printed(self._here(command)) == self._here(shown), line
        elif shown:
            expected = self._here(shown)
            until_blocking(
                lambda: self._printed(self._here(command)).startswith(expected.rstrip()), f"{line} prints {expected!r}"
            )
        else:
            self._printed(self._here(command))

    def _here(self, text: str) -> str:
        for path, replacement in self._paths.items():
            text = text.replace(path, replacement)
        return text

    def _printed(self, command: str) -> str:
        words = shlex.split(command)
        if words[0] == "curl":
            return _get(words[1])
        if words[0] == "ottla" and not set(command) & set("|<>"):
            return self._ottla(words[1:])
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        script = f'ottla() {{ "{sys.executable}" -m ottla "$@"; }}\n{command}'
        done = subprocess.run(
            ["bash", "-ec", script],
            env=environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, command + done.stderr
        return done.stdout

    def _ottla(self, words: list[str]) -> str:
        out, errors = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main(words)
        out.seek(0)
        assert code == 0 or "status" in words, errors.getvalue()  # status waits for moves with exit code 1
        return errors.getvalue() + out.read()

    def _act(self, words: list[str], broker_id: int | None) -> None:
        if words[-1] in self.on_service:
            self.on_service[words[-1]]()
            return
        assert words[-1] == "ottla", words
        broker = self.brokers[broker_id if broker_id is not None else next(iter(self.brokers))]
        if words[1] in ("stop", "restart"):
            assert broker.stop() == 0
        if words[1] in ("start", "restart"):
            broker.start()


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()
