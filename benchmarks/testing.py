"""What brokers for tests cost: CPU time of the first fixture, of a cluster, of a topic and of a reset.

    python -m benchmarks.testing

Each start is measured in a fresh process, imports included: that is what the first test of a run waits for. Topics and
resets are measured within a process, and the median is shown. The limits are those of the issue that asked for them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from ottla import testing

ROUNDS = 5
TOPICS = 100
RESETS = 20
FIRST_BROKER = "from ottla import testing; server = testing.broker().start()"
FIRST_CLUSTER = "from ottla import testing; server = testing.cluster(3).start()"
MEASURED = """
import json, os, time
begin_s = time.monotonic()
before = os.times()
{code}
after = os.times()
print(json.dumps([after.user + after.system - before.user - before.system, time.monotonic() - begin_s]))
server.stop()
"""


def in_a_fresh_process(code: str) -> tuple[float, float]:
    """Return the median CPU and wall time of some code, in seconds; the start of Python does not count."""
    rounds = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", MEASURED.format(code=code)]
        rounds.append(json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout))
    cpu, wall = zip(*rounds, strict=True)
    return statistics.median(cpu), statistics.median(wall)


def repeated(action: Callable[[int], object], count: int) -> tuple[float, float]:
    """Return the median CPU and wall time of an action, in seconds. CPU is that of all threads."""
    cpu, wall = [], []
    for number in range(count):
        begin_cpu, begin = time.process_time(), time.monotonic()
        action(number)
        cpu.append(time.process_time() - begin_cpu)
        wall.append(time.monotonic() - begin)
    return statistics.median(cpu), statistics.median(wall)


def print_row(name: str, measured: tuple[float, float], limit_s: float) -> None:
    """Print one line of the table."""
    cpu, wall = (1000 * value for value in measured)
    verdict = "" if cpu <= 1000 * limit_s else " **over**"
    print(f"| {name} | {cpu:.1f} | {wall:.1f} | {1000 * limit_s:.0f}{verdict} |")


def main() -> None:
    """Measure, and print a table."""
    print("| | CPU ms | wall ms | limit, CPU ms |")
    print("| --- | ---: | ---: | ---: |")
    print_row("first broker of a process, with imports", in_a_fresh_process(FIRST_BROKER), 0.4)
    print_row("first cluster of three brokers, with imports", in_a_fresh_process(FIRST_CLUSTER), 1.2)
    for brokers in (1, 3):
        with testing.broker() if brokers == 1 else testing.cluster(brokers) as server:
            name = f"{brokers} broker{'' if brokers == 1 else 's'}"
            create = repeated(lambda number, on=server: on.create_topic(f"topic-{number}"), TOPICS)
            print_row(f"a topic, {name}", create, 0.010)
            print_row(f"a reset, {name}", repeated(lambda _, on=server: on.reset(), RESETS), 0.050)


if __name__ == "__main__":
    main()
