"""`ottla zookeeper` and `ottla registry` as processes."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Self

from support.deadlines import DEADLINE_S
from support.fork_server import ROOT


class RunningRegistry:
    """The command as a process, ready. `text` is what it has printed until then."""

    last_words = "ottla zk tree"
    """What is in the last paragraph that the command prints when it is ready."""

    def __init__(self, command: str, *words: object, pass_fds: Sequence[int] = ()) -> None:
        env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla", command, *map(str, words)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        assert self.process.stdout is not None
        self.text = ""
        for line in iter(self.process.stdout.readline, ""):
            self.text += line
            if line == "\n" and self.last_words in self.text:
                break
        assert " is ready" in self.text, self.text

    def value(self, name: str) -> str:
        """A value of the lines that say what is ready."""
        found = re.search(rf"^  {name} +(.*?)( \(temporary\))?$", self.text, flags=re.MULTILINE)
        assert found is not None, self.text
        return found[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=DEADLINE_S)


def listens(address: str) -> bool:
    """Whether something accepts connections at host:port."""
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True
