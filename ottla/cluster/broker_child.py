"""A broker as a child process (`ottla broker …`): its start, its output and its end.

The process has its own session, so that Ctrl-C at the terminal reaches only the parent, which stops the children in
order. The parent forwards the broker's log lines (standard error) at once, and keeps in `facts` what the broker prints
when it is ready (standard output).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence

from broker.first_commands import READY, TRY
from ottla.cluster.child_environment import child_environment

_FACT = re.compile(r" +(?P<name>\S+) +(?P<value>.*)")
_CHUNK = 1 << 16


class BrokerChild:
    """One broker process, from `start` to its end."""

    def __init__(self, name: str, arguments: Sequence[str], on_line: Callable[[str], None]) -> None:
        """arguments: those of `ottla broker`. on_line: called with each line of the broker's log."""
        self.name = name
        self.arguments = arguments
        self.facts: dict[str, str] = {}  # listening, data, console: once it is ready
        self.last_line = ""
        self.inherited: Sequence[int] = ()
        """File descriptors that the process gets, too."""
        self._on_line = on_line
        self._process: Process | None = None
        self._ready = asyncio.Event()
        self._readers: list[asyncio.Task[None]] = []

    @property
    def pid(self) -> int | None:
        """The process id; None before the start."""
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended (it may be paused)."""
        return self._process is not None and self._process.returncode is None

    @property
    def summary(self) -> str:
        """The addresses and the process id, for the terminal. The broker must be ready."""
        console = f"console {self.facts['console']}  " if "console" in self.facts else ""
        return f"{self.facts['listening']}  {console}pid {self.pid}"

    @property
    def end(self) -> str:
        """How the process ended, for messages: "with 1", "by SIGKILL"."""
        code = None if self._process is None else self._process.returncode
        return f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with {code}"

    async def start(self) -> None:
        """Start the process without waiting until it is ready. Raises OSError if the system refuses."""
        await self._start(["-m", "ottla", "broker", *self.arguments])

    async def _start(self, words: Sequence[str], inherited: Sequence[int] = ()) -> None:
        """Start Python with these words. inherited: the file descriptors that the process gets."""
        self.facts = {}
        self._ready.clear()
        # -P: a module in the working directory must not hide one of Ottla's packages.
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *(sys.executable, "-P", *words),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                env=child_environment(),
                start_new_session=True,
                pass_fds=(*self.inherited, *inherited),
            )
        )
        try:
            await asyncio.shield(starting)
        finally:
            # Otherwise a cancelled start would leave a process that is never stopped.
            self._process = process = await starting
            assert process.stdout is not None
            assert process.stderr is not None
            self._readers = [
                asyncio.create_task(self._read_facts(process.stdout)),
                asyncio.create_task(self._read_log(process.stderr)),
            ]

    async def wait_ready(self) -> bool:
        """Wait until the broker serves clients. Return False if the process ends first."""
        assert self._process is not None
        ready = asyncio.create_task(self._ready.wait())
        ended = asyncio.create_task(self.wait())
        try:
            await asyncio.wait([ready, ended], return_when=asyncio.FIRST_COMPLETED)
            return self._ready.is_set() and self.is_running
        finally:
            ready.cancel()
            ended.cancel()

    async def wait(self) -> None:
        """Wait until the process has ended and all of its output is forwarded."""
        assert self._process is not None
        await self._process.wait()
        await asyncio.wait(self._readers)

    async def stop(self, timeout_s: float) -> bool:
        """Send SIGTERM and wait. Return False if the timeout expires; the process is killed then."""
        if self._process is None:
            return True
        if self.is_running:
            self._send_signal(signal.SIGTERM)
            self.resume()  # the process may be paused
        try:
            async with asyncio.timeout(timeout_s):
                await self.wait()
        except TimeoutError:
            self.kill()
            await self.wait()
            return False
        return True

    def pause(self) -> None:
        """Send SIGSTOP: the process stands still, its connections stay open."""
        self._send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT to a paused process."""
        self._send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL, to simulate a crash."""
        self._send_signal(signal.SIGKILL)

    def _send_signal(self, number: signal.Signals) -> None:
        # Not Process.send_signal: it polls first, and if the process has ended, that poll takes the exit code away
        # from asyncio's child watcher, which then reports 255.
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _read_facts(self, stream: asyncio.StreamReader) -> None:
        """Read the names and values between the lines READY and TRY."""
        is_ready_line_seen = False
        async for line in _lines(stream):
            if line.startswith("{"):  # ottla.log.format=json: one line with all facts
                self._take_json(line)
            elif line == READY:
                is_ready_line_seen = True
            elif line == TRY:
                self._ready.set()
            elif is_ready_line_seen and not self._ready.is_set() and (match := _FACT.fullmatch(line)):
                self.facts.setdefault(match["name"], match["value"])

    def _take_json(self, line: str) -> None:
        with contextlib.suppress(ValueError):
            fields = json.loads(line)
            if fields.get("message") == READY:
                facts = {"listening": fields["listening"][0], "data": ", ".join(fields["data"])}
                self.facts = facts | ({"console": fields["console"]} if fields["console"] else {})
                self._ready.set()

    async def _read_log(self, stream: asyncio.StreamReader) -> None:
        async for line in _lines(stream):
            self.last_line = line
            self._on_line(line)


def bootstrap_servers(brokers: Sequence[BrokerChild]) -> str:
    """Return the bootstrap servers for clients: host:port of every broker. The brokers must be ready."""
    return ",".join(broker.facts["listening"].partition("://")[2] for broker in brokers)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield lines of any length; the last line may have no newline."""
    pending = b""
    while chunk := await stream.read(_CHUNK):
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if pending:
        yield pending.decode(errors="replace")
