"""A process at a pseudo-terminal: a test types, and reads what a person would see."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
from collections.abc import Sequence

from support.polling import until_blocking

CTRL_C = "\x03"
_AT_THE_TERMINAL = 'exec <>"$0" >&0 2>&0; exec "$@"'
"""The first terminal that the leader of a session opens becomes the session's terminal, which sends its signals."""


class Terminal:
    """A new terminal, and a process that leads its session; a context manager. `shown` is all output so far."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start `command`, a program and its arguments."""
        self.shown = ""
        self._keyboard, self._screen = pty.openpty()
        name = os.ttyname(self._screen)
        self.process = subprocess.Popen(["sh", "-c", _AT_THE_TERMINAL, name, *command], start_new_session=True)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()
        self.hang_up()
        os.close(self._screen)

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._keyboard, keys.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the terminal has shown `text`. Raises AssertionError."""
        until_blocking(lambda: text in self._screen_now(), f"the terminal shows {text!r}")

    def hang_up(self) -> None:
        """Close the terminal: the kernel sends SIGHUP to the process."""
        if self._keyboard >= 0:
            os.close(self._keyboard)
            self._keyboard = -1

    def _screen_now(self) -> str:
        while select.select([self._keyboard], [], [], 0)[0]:
            self.shown += os.read(self._keyboard, 65536).decode(errors="replace")
        return self.shown
