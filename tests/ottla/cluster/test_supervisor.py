"""Which delays a supervisor makes before it restarts a process; real processes are in test_broker_processes.py."""

import asyncio
import contextlib

from client.wire.backoff import Backoff
from ottla.cluster.json_output import JsonOutput
from ottla.cluster.supervisor import Supervisor
from support.polling import until


class Process:
    """Ends at once in each of its runs, and is ready before that if `is_ready`."""

    name = "process-0"
    end = "with 1"

    def __init__(self, runs):
        self.runs = runs
        self.started = 0

    async def start(self):
        self.started += 1

    async def wait_ready(self):
        return self.runs[self.started - 1]

    async def wait(self):
        if self.started == len(self.runs):
            await asyncio.Event().wait()


class Attempts(Backoff):
    """Records the attempts, and does not wait."""

    def __init__(self):
        self.made = []

    def delay_s(self, attempt):
        self.made.append(attempt)
        return 0.0


async def test_the_delay_grows_until_the_broker_is_ready(capsys):
    process, attempts = Process([True, False, False, True, False]), Attempts()
    await process.start()
    supervisor = Supervisor([process], None, JsonOutput(lambda: 0.0), attempts)
    watching = asyncio.create_task(supervisor.watch())
    await until(lambda: process.started == len(process.runs), "all runs have begun")
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    assert attempts.made == [0, 1, 2, 0]
    expected = (
        '{"timestamp": "1970-01-01T00:00:00.000Z", "level": "INFO", "logger": "ottla.cluster.json_output",'
        ' "message": "has ended with 1; it starts again in 0.0 s", "process": "process-0"}'
    )
    assert capsys.readouterr().err.splitlines() == [expected] * 4
