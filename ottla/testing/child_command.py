"""Runs a command beside the brokers of this process, passes signals on to it, and returns its exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, Self

PASSED_ON: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH),
)
FROM_THE_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH})
"""A terminal sends these to every process of its foreground group, so the command has received them already."""

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
"""Exit codes of a command that cannot be started, as of shells."""


class CommandNotStartedError(Exception):
    """The command cannot be started."""

    def __init__(self, command: str, error: OSError) -> None:
        super().__init__(f"{command}: {error.strerror}")
        self.exit_code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


class Signals:
    """While it is entered: signals go to the command. One that comes before its start raises SystemExit.

    So the brokers are stopped, and their data is removed, whichever signal ends the command. Signals that are ignored
    (nohup) stay ignored.

    A signal that comes during the start is passed on after it: the process may exist already, and would be left behind.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._is_starting = False
        self._held: list[int] = []
        self._has_ended = False

    def __enter__(self) -> Self:
        for number in PASSED_ON:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._received)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a command to its end with these additional variables, and return its exit code.

        128 + number for a command that a signal has ended. Raises CommandNotStartedError.
        """
        self._is_starting = True
        try:
            process = self._process = subprocess.Popen(command, env=os.environ | environment)
        except OSError as error:
            raise CommandNotStartedError(command[0], error) from None
        finally:
            self._is_starting = False
        for number in self._held:  # also those of a terminal: they may have come before the process existed
            process.send_signal(number)
        code = self._wait(process)
        self._has_ended = True
        return code if code >= 0 else 128 - code

    @staticmethod
    def _wait(process: subprocess.Popen[bytes]) -> int:
        """Return the exit code. A time limit makes `Popen.wait` look again and again.

        A wait without end would lose signals: the kernel gives one to any thread, for instance that of the brokers, and
        the main thread, which has to pass it on, would not wake up for it.
        """
        while True:
            try:
                return process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                continue

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self._has_ended:
            return  # the brokers are being stopped
        if self._is_starting:
            self._held.append(number)
        elif self._process is None:
            if number != signal.SIGWINCH:
                raise SystemExit(128 + number)
        elif number not in FROM_THE_TERMINAL or not _is_in_the_foreground():
            self._process.send_signal(number)  # does nothing if the command has ended


def _is_in_the_foreground() -> bool:
    """Whether this process has a terminal whose signals go to its process group."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        try:
            if os.tcgetpgrp(stream.fileno()) == os.getpgrp():
                return True
        except (OSError, ValueError, AttributeError):  # no terminal; closed; replaced
            continue
    return False
