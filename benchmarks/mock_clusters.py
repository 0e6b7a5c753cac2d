"""Brokers for tests: the start and the memory of Ottla's and of librdkafka's mock cluster, each in fresh processes.

    python -m benchmarks.mock_clusters

The time is until a message is acknowledged, in a process that has imported confluent-kafka, and not yet Ottla: it
includes the import. The memory is what the process has grown by (resident set).
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
from confluent_kafka import Producer

RUNS = 5


@contextlib.contextmanager
def ottla_broker() -> Iterator[str]:
    from ottla import testing  # measured

    with testing.broker() as broker:
        yield broker.bootstrap_servers


@contextlib.contextmanager
def ottla_cluster() -> Iterator[str]:
    from ottla import testing  # measured

    with testing.cluster(3) as cluster:
        yield cluster.bootstrap_servers


@contextlib.contextmanager
def mock(brokers: int) -> Iterator[str]:
    owner = Producer({"test.mock.num.brokers": brokers, "bootstrap.servers": "", "log_level": 0})
    found = owner.list_topics(timeout=60).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in found)


KINDS: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "Ottla, one broker": ottla_broker,
    "Ottla, three brokers": ottla_cluster,
    "librdkafka's mock, one broker": lambda: mock(1),
    "librdkafka's mock, three brokers": lambda: mock(3),
}


def measure(kind: str) -> dict[str, float]:
    """Start the brokers in this process, and send a message."""
    process = psutil.Process()
    memory, began, cpu = process.memory_info().rss, time.perf_counter(), time.process_time()
    with KINDS[kind]() as servers:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        producer.produce("first", b"one")
        if producer.flush(60):
            raise RuntimeError(f"{kind}: the message was not acknowledged")
        return {
            "wall_s": time.perf_counter() - began,
            "cpu_s": time.process_time() - cpu,
            "memory_mb": (process.memory_info().rss - memory) / 1e6,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, help="measure this in this process, and print JSON")
    arguments = parser.parse_args()
    if arguments.kind:
        print(json.dumps(measure(arguments.kind)))
        return
    print(f"{'':34} {'wall s':>8} {'CPU s':>8} {'MB':>6}   (medians of {RUNS})")
    for kind in KINDS:
        command = [sys.executable, "-m", "benchmarks.mock_clusters", "--kind", kind]
        runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(RUNS)]
        wall, cpu, memory = (statistics.median(run[name] for run in runs) for name in runs[0])
        print(f"{kind:34} {wall:8.2f} {cpu:8.2f} {memory:6.0f}")


if __name__ == "__main__":
    main()
