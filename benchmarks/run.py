"""Runs the benchmarks and prints a table: `make bench`, or `python -m benchmarks.run [--quick]`.

Every figure of the broker stands beside the floor's (benchmarks/floor_server.py) from the same run: for every
case the servers take turns, A B A B, each time a fresh process with an empty directory, and medians are
compared. What counts is the server's CPU time for the same work, since wall clock figures of two processes
that share a small machine say little.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import plot, report
from benchmarks.server import ROOT, SERVERS, Server, directory, touch_memory

RESULTS = Path(__file__).resolve().parent / "results"
SIZES = (100, 1024)
PARTITIONS = (1, 8)
CODECS = ("none", "lz4")

# full, quick
BYTES = (500_000_000, 100_000_000)
SMALL_REQUESTS = (200_000, 40_000)
LATENCY_MESSAGES = (20_000, 3_000)
ROUNDS = (3, 1)
STARTS = (5, 2)

Measurement = dict[str, Any]
Part = Callable[[Server | None, argparse.Namespace], Iterator[tuple[str, Measurement]]]


class Load:
    """The load process, and what the server spent between its `ready` and its `done`."""

    def __init__(
        self, server: Server | None, command: str, *, module: str = "benchmarks.load", **options: object
    ) -> None:
        self.server = server
        bootstrap = server.bootstrap if server else "mock"
        if server and server.authority:
            options["authority"] = server.authority
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, command, "--bootstrap", bootstrap, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if server is None else None,
            text=True,
        )

    def run(self) -> Measurement:
        assert self.process.stdin is not None
        self._expect("ready")
        before = self.server.cpu_seconds() if self.server else 0.0
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self._expect("done")
        after = self.server.cpu_seconds() if self.server else 0.0
        result: Measurement = json.loads(self._line())
        self.process.wait(60)
        result["cpu_s"] = after - before
        if self.server:
            result["rss_bytes"] = self.server.rss_bytes()
            result["rss_peak_bytes"] = self.server.rss_bytes("VmHWM")
        return result

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def _expect(self, word: str) -> None:
        if self._line() != word:
            self.process.kill()
            raise SystemExit("benchmarks: the load failed, its message is above")


def throughput(size: int, partitions: int, codec: str) -> Part:
    """Produces to a new topic at full speed, then consumes it."""

    def measure(server: Server | None, options: argparse.Namespace) -> Iterator[tuple[str, Measurement]]:
        assert server is not None
        topic = f"b{size}-{codec}-{partitions}p"
        case = {"topic": topic, "partitions": partitions, "size": size, "count": options.bytes // size}
        server.create_topic(topic, partitions)
        what = f"{size} B, {partitions} partition{'s' if partitions > 1 else ''}, {codec}"
        yield f"produce {what}", Load(server, "produce", codec=codec, **case).run()
        yield f"consume {what}", Load(server, "consume", **case).run()

    return measure


def small_requests(server: Server | None, options: argparse.Namespace) -> Iterator[tuple[str, Measurement]]:
    assert server is not None
    server.create_topic("small", 1)
    yield "small produce", Load(server, "small", topic="small", count=options.requests).run()


def latency(server: Server | None, options: argparse.Namespace) -> Iterator[tuple[str, Measurement]]:
    if server:
        server.create_topic("latency", 1)
    yield "latency", Load(server, "latency", topic="latency", count=options.messages).run()


def start(server: Server | None, _options: argparse.Namespace) -> Iterator[tuple[str, Measurement]]:
    """From the process's start to the first acknowledged message; then two idle seconds for its memory."""
    from confluent_kafka import Producer

    assert server is not None
    server.create_topic("first", 1)
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})
    producer.produce("first", b"hello")
    if producer.flush(30):
        raise SystemExit("benchmarks: the first message was not acknowledged")
    result: Measurement = {"seconds": time.monotonic() - server.started_at, "cpu_s": server.cpu_seconds()}
    before, began = server.cpu_seconds(), time.monotonic()
    time.sleep(2)
    result["idle_cpu_per_s"] = (server.cpu_seconds() - before) / (time.monotonic() - began)
    result["rss_bytes"] = server.rss_bytes()
    yield "start", result


PARTS: dict[str, list[Part]] = {
    "throughput": [throughput(*case) for case in itertools.product(SIZES, PARTITIONS, CODECS)],
    "small": [small_requests],
    "latency": [latency],
    "start": [start],
}


def measure_all(options: argparse.Namespace) -> dict[str, dict[str, list[Measurement]]]:
    """case → server → its measurements, one a round."""
    found: dict[str, dict[str, list[Measurement]]] = {}
    for part in options.parts:
        names = [*options.servers, "mock"] if part == "latency" else options.servers
        count = options.starts if part == "start" else options.rounds
        for measure in PARTS[part]:
            for number, name in itertools.product(range(count), names):
                print(
                    f"{time.strftime('%H:%M:%S')} {part} round {number + 1} {name}",
                    file=sys.stderr,
                    flush=True,
                )
                for case, measurement in one_round(measure, name, options):
                    found.setdefault(case, {}).setdefault(name, []).append(measurement)
    return found


def one_round(measure: Part, name: str, options: argparse.Namespace) -> Iterator[tuple[str, Measurement]]:
    if name == "mock":
        yield from measure(None, options)
        return
    with SERVERS[name](options.directory) as server:
        yield from measure(server, options)


def medians(measurements: list[Measurement]) -> Measurement:
    names = measurements[0].keys()
    return {name: statistics.median(one[name] for one in measurements) for name in names}


def environment() -> dict[str, Any]:
    import importlib.util

    import confluent_kafka

    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "uvloop": importlib.util.find_spec("uvloop") is not None,
        "machine": f"{platform.system()} {platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "revision": revision.stdout.strip(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of little data: does it work at all?")
    parser.add_argument("--servers", nargs="+", choices=list(SERVERS), default=list(SERVERS))
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--rounds", type=int, help="kept rounds, each with every server in turn")
    parser.add_argument("--bytes", type=int, help="payload bytes of one throughput case")
    parser.add_argument("--directory", type=Path, help="where the servers' directories are made (default: /tmp)")
    parser.add_argument("--output", type=Path, help="directory of JSON, table and plot (default: results/, or none)")
    parser.add_argument("--check", action="store_true", help="exit 1 when a ratio is over its limit")
    options = parser.parse_args()
    choice = 1 if options.quick else 0
    options.bytes = options.bytes or BYTES[choice]
    options.rounds = options.rounds or ROUNDS[choice]
    options.requests, options.messages = SMALL_REQUESTS[choice], LATENCY_MESSAGES[choice]
    options.starts = STARTS[choice]

    options.directory = options.directory or directory()
    touch_memory(options.directory, 3 * options.bytes)
    found = measure_all(options)
    results = {
        "environment": environment(),
        "settings": {"bytes": options.bytes, "rounds": options.rounds, "quick": options.quick},
        "cases": {
            case: {name: medians(all_of_it) for name, all_of_it in servers.items()} for case, servers in found.items()
        },
        "rounds": found,
    }
    text, within = report.table(results)
    print(text)
    output = options.output or (None if options.quick else RESULTS)
    if output:
        output.mkdir(parents=True, exist_ok=True)
        (output / "benchmark.json").write_text(json.dumps(results, indent=1) + "\n")
        (output / "benchmark.md").write_text(text + "\n")
        plot.draw(results, output / "benchmark.png")
    if options.check and not within:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
