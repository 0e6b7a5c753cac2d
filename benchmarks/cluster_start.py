"""How long `ottla cluster` takes until it is ready: `python -m benchmarks.cluster_start [--rounds 5] [OPTION...]`.

Further options go to `ottla cluster`, such as `--zookeeper-nodes 1`. Wall time runs from the start of the process to
the line that says that the cluster is ready. CPU is that of the command and of the processes that it has started.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

READY = "The cluster is ready"
ANY_PORTS = ("--port", "0", "--zookeeper-port", "0", "--console-port", "0")


class Start(NamedTuple):
    """One start: seconds, and CPU seconds of each process, the command first."""

    wall_s: float
    cpu_s: list[float]


def measure(options: list[str]) -> Start:
    """Start a cluster, wait until it is ready, and stop it."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "ottla", "cluster", "--quiet", *ANY_PORTS, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as cluster:
        assert cluster.stdout is not None
        if not any(READY in line for line in cluster.stdout):
            raise SystemExit("the cluster did not start")
        wall_s = time.perf_counter() - began
        children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()
        cpu_s = [cpu_of(pid) for pid in (str(cluster.pid), *children)]
        cluster.send_signal(signal.SIGTERM)
        cluster.stdout.read()
    return Start(wall_s, cpu_s)


def cpu_of(pid: str) -> float:
    """Return the CPU seconds of a process, with those of its kernel calls."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print every start, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    options, of_cluster = parser.parse_known_args()
    starts = [measure(of_cluster) for _ in range(options.rounds)]
    for start in starts:
        shares = " ".join(f"{one:.2f}" for one in start.cpu_s)
        print(f"ready after {start.wall_s:.2f} s, {sum(start.cpu_s):.2f} CPU s: {shares}")
    wall_s = statistics.median(start.wall_s for start in starts)
    cpu_s = statistics.median(sum(start.cpu_s) for start in starts)
    print(f"median {wall_s:.2f} s, {cpu_s:.2f} CPU s")


if __name__ == "__main__":
    main()
