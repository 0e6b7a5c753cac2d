"""Thousands of partitions on one broker: how long they take to create, to close and to open again.

    python -m benchmarks.partitions --topics 2000 --partitions 4

All topics are created with one request of the admin API, on a broker with the embedded registry. Then the broker is
stopped and started, and killed and started. A start ends when every partition has a leader. Each step is shown with the
seconds it took and the CPU seconds of the broker, imports included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.server import Ottla, directory

PATIENCE_S = 300.0


class Steps:
    """Runs the steps on one broker."""

    def __init__(self, server: Ottla, topics: int, partitions: int) -> None:
        self._server = server
        self._topics = topics
        self._partitions = partitions

    def create(self) -> None:
        """Create all topics with one request; return when each partition has a leader."""
        topics = [NewTopic(f"topic-{number:05}", self._partitions, 1) for number in range(self._topics)]
        admin = self._admin()  # it must outlive its futures
        futures = admin.create_topics(topics, operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S)
        for future in futures.values():
            future.result()
        self._until_led()

    def stop(self) -> None:
        """Stop the broker as a user does."""
        assert self._server.process is not None
        self._server.process.terminate()
        self._server.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """End the broker's process without a warning."""
        assert self._server.process is not None
        self._server.process.kill()
        self._server.process.wait(PATIENCE_S)

    def start(self) -> None:
        """Start the broker; return when each partition has a leader."""
        self._server.start()
        self._until_led()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._server.bootstrap, "log_level": 0})

    def _until_led(self) -> None:
        admin, expected = self._admin(), self._topics * self._partitions
        deadline_s = time.monotonic() + PATIENCE_S
        led = 0
        while led < expected:
            if time.monotonic() > deadline_s:
                raise SystemExit(f"benchmarks: {led} of {expected} partitions have a leader after {PATIENCE_S} s")
            time.sleep(0.02)
            topics = admin.list_topics(timeout=PATIENCE_S).topics
            led = sum(one.leader >= 0 for topic in topics.values() for one in topic.partitions.values())


def timed(name: str, step: Callable[[], None], server: Ottla, *, new_process: bool = False) -> None:
    """Run a step and print what it took. The CPU time of a process that ends is that of its last reading."""
    before_s = 0.0 if new_process else server.cpu_seconds()
    began_s = time.monotonic()
    step()
    wall_s = time.monotonic() - began_s
    ended = server.process is None or server.process.poll() is not None
    cpu = "" if ended else f"{server.cpu_seconds() - before_s:10.2f}"
    print(f"{name:28}{wall_s:10.2f}{cpu:>10}", flush=True)


def main() -> None:
    """Run the steps and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=2000)
    parser.add_argument("--partitions", type=int, default=4, help="of each topic")
    options = parser.parse_args()
    print(f"{options.topics:,} topics with {options.partitions} partitions each")
    print(f"{'step':28}{'seconds':>10}{'CPU s':>10}")
    with Ottla(directory()) as server:
        steps = Steps(server, options.topics, options.partitions)
        timed("create", steps.create, server)
        timed("clean stop", steps.stop, server)
        timed("start after a clean stop", steps.start, server, new_process=True)
        timed("kill", steps.kill, server)
        timed("start after a kill", steps.start, server, new_process=True)


if __name__ == "__main__":
    main()
