"""What `ottla broker --processes N` gives: the rate of one and of two broker processes on this machine.

    python -m benchmarks.processes --rounds 3

A topic has eight partitions, which the processes lead in equal shares. There are as many loads, processes of
librdkafka, as brokers, and all share the cores. CPU is that of all brokers, without the supervisor and the registry.
The table has medians of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.cluster_start import cpu_of
from benchmarks.run import Load
from benchmarks.server import Ottla, directory

PARTITIONS = 8


class Processes(Ottla):
    """A supervisor and its broker processes."""

    name = "processes"

    def __init__(self, base: Path, count: int) -> None:
        super().__init__(base)
        self._count = count

    def command(self) -> list[str]:
        command = super().command()
        return [command[0], "-m", "ottla", "broker", "--processes", str(self._count), *command[3:]]

    def cpu_seconds(self) -> float:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        commands = {child: Path(f"/proc/{child}/cmdline").read_text().split("\0") for child in children}
        return sum(cpu_of(child) for child, words in commands.items() if "broker" in words)


def measure(count: int, megabytes: int, requests: int) -> Iterator[tuple[str, float, float]]:
    """Yield the load, its rate (MB or requests a second), and the CPU seconds for a GB, or µs for a request."""
    with Processes(directory(), count) as server:
        for load, size, amount in (("produce", 1024, megabytes * 1_000_000 // 1024), ("small", 100, requests)):
            topic = f"bench-{load}"
            server.create_topic(topic, PARTITIONS)
            each = amount // count
            loads = [
                Load(server, load, topic=topic, partitions=PARTITIONS, size=size, count=each) for _ in range(count)
            ]
            before = server.cpu_seconds()
            with ThreadPoolExecutor(count) as threads:
                seconds = max(one["seconds"] for one in threads.map(Load.run, loads))
            cpu_s = server.cpu_seconds() - before
            if load == "produce":
                yield load, amount * size / 1e6 / seconds, cpu_s / (amount * size / 1e9)
            else:
                yield load, amount / seconds, cpu_s / amount * 1e6


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=1000, help="of records of 1 KiB")
    parser.add_argument("--requests", type=int, default=200_000, help="with one record of 100 B each")
    options = parser.parse_args()
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        for count in (1, 2):
            for load, rate, cost in measure(count, options.megabytes, options.requests):
                found.setdefault((load, count), []).append((rate, cost))
    units = {"produce": "1 KiB: MB/s, CPU-s/GB", "small": "100 B, one a request: requests/s, µs CPU a request"}
    for (load, count), rounds in sorted(found.items()):
        rate, cost = (statistics.median(one) for one in zip(*rounds, strict=True))
        print(f"{load} {units[load]}, {count} broker processes: {rate:,.0f} {cost:.2f}")


if __name__ == "__main__":
    main()
