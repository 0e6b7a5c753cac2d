"""The load: a process of its own that drives one server through librdkafka and prints what it saw as JSON.

`python -m benchmarks.load produce|consume|small|latency|connect --bootstrap HOST:PORT …`
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import librdkafka
from benchmarks.server import client_settings

BLOCK = 100_000
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)  # size, API, version, correlation id, no client id
CODECS = {"none": "none", "lz4": "lz4"}
WORDS = (
    "order",
    "customer",
    "payment",
    "shipped",
    "pending",
    "berlin",
    "london",
    "tokyo",
    "invoice",
    "amount",
)


def payload(size: int, total: int = 8_000_000) -> bytes:
    """Lines like those of an application log, `size` bytes each: lz4 brings them to about 40%."""
    randomness = random.Random(42)  # the same bytes every time
    lines = []
    for number in range(total // size):
        line = f'{{"id":{number},"key":"{randomness.getrandbits(64):016x}","event":"'
        while len(line) < size - 2:
            line += f"{randomness.choice(WORDS)} {randomness.randrange(10_000)} "
        lines.append(line[: size - 2] + '"}')
    return "".join(lines).encode()


def requests_sent(statistics: dict[str, Any], kind: str) -> int:
    return sum(broker.get("req", {}).get(kind, 0) for broker in statistics.get("brokers", {}).values())


def produce(options: argparse.Namespace) -> dict[str, float]:
    """Full speed, librdkafka's default batching (10,000 records, 1 MB, 5 ms)."""
    settings = {
        "bootstrap.servers": options.bootstrap,
        **client_settings(options.authority),
        "acks": options.acks,
        "compression.codec": CODECS[options.codec],
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 512 * 1024,
    }
    if options.command == "small":
        settings |= {"linger.ms": 0, "batch.num.messages": 1}
    block = min(BLOCK, options.count)
    messages = librdkafka.Messages(payload(options.size), options.size, block, options.partitions)
    producer = librdkafka.Producer(options.topic, settings)
    wait_for_start(producer, messages)
    began = time.monotonic()
    left = options.count
    while left > 0:
        producer.produce(messages, min(block, left))
        left -= min(block, left)
    producer.flush()
    seconds = finished(began)
    report = producer.fresh_statistics(lambda report: report["txmsgs"] >= options.count)
    producer.close()
    if options.codec != "none" and report["tx_bytes"] > 0.9 * options.count * options.size:
        raise RuntimeError(f"librdkafka did not use {options.codec}: does the server announce FindCoordinator?")
    return {
        "seconds": seconds,
        "records": options.count,
        "bytes": options.count * options.size,
        "requests": requests_sent(report, "Produce"),
    }


def wait_for_start(producer: librdkafka.Producer, messages: librdkafka.Messages) -> None:
    """One message goes ahead, so that neither connecting nor metadata is measured."""
    producer.produce(messages, 1)
    producer.flush()
    announce("ready")


def announce(word: str) -> None:
    print(word, flush=True)
    if sys.stdin.readline().strip() != "go":
        raise SystemExit("benchmarks: the driver went away")


def finished(began: float) -> float:
    """Tells the driver to read the server's clock now."""
    seconds = time.monotonic() - began
    print("done", flush=True)
    return seconds


def consume(options: argparse.Namespace) -> dict[str, float]:
    """Full speed from the beginning, without a group; queues wide enough to keep on fetching."""
    settings = {
        "bootstrap.servers": options.bootstrap,
        **client_settings(options.authority),
        "queued.min.messages": 10_000_000,
        "queued.max.messages.kbytes": 256 * 1024,
        "fetch.queue.backoff.ms": 1,
        "check.crcs": "false",
    }
    announce("ready")
    consumer = librdkafka.Consumer(options.topic, options.partitions, settings)
    # The half second in which the client finds its topic and its offsets is not the server's.
    began = consumer.consume(options.count, timeout_s=180)
    seconds = finished(began)
    report = consumer.fresh_statistics(lambda report: report["rxmsgs"] >= options.count)
    consumer.close()
    return {
        "seconds": seconds,
        "records": options.count,
        "bytes": options.count * options.size,
        "requests": requests_sent(report, "Fetch"),
    }


def connect(options: argparse.Namespace) -> dict[str, float]:
    """Open connections one after another, with one request each: the server has then done all that it does."""
    host, port = options.bootstrap.rsplit(":", 1)
    context = ssl.create_default_context(cafile=options.authority) if options.authority else None
    opened = []
    announce("ready")
    began = time.monotonic()
    for _ in range(options.count):
        one = socket.create_connection((host, int(port)))
        if context is not None:
            one = context.wrap_socket(one, server_hostname=host)
        one.sendall(API_VERSIONS)
        one.recv(64 * 1024)
        opened.append(one)
    seconds = finished(began)
    for one in opened:
        one.close()
    return {"seconds": seconds, "connections": options.count}


def latency(options: argparse.Namespace) -> dict[str, float]:
    """`rate` messages a second with linger 0: produce call to delivery report, by librdkafka's own clock."""
    import confluent_kafka

    settings: dict[str, Any] = {"linger.ms": 0, "acks": options.acks}
    if options.bootstrap == "mock":
        settings["test.mock.num.brokers"] = 1
    else:
        settings["bootstrap.servers"] = options.bootstrap
    producer = confluent_kafka.Producer(settings)
    seen: list[float] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            raise RuntimeError(str(error))
        seen.append(message.latency())

    value = b"x" * options.size
    for _ in range(options.rate):  # a second of warming up
        producer.produce(options.topic, value, partition=0, on_delivery=delivered)
        producer.poll(0.001)
    producer.flush(30)
    seen.clear()
    announce("ready")
    began = time.monotonic()
    for number in range(options.count):
        due = began + number / options.rate
        while (wait := due - time.monotonic()) > 0:
            producer.poll(min(wait, 0.0005))
        producer.produce(options.topic, value, partition=0, on_delivery=delivered)
    producer.flush(30)
    seconds = finished(began)
    seen.sort()
    if len(seen) != options.count:
        raise RuntimeError(f"{len(seen)} of {options.count} messages were delivered")

    def percentile(part: float) -> float:
        return seen[min(len(seen) - 1, int(len(seen) * part))] * 1000

    return {
        "seconds": seconds,
        "records": options.count,
        "bytes": options.count * options.size,
        "p50_ms": percentile(0.50),
        "p99_ms": percentile(0.99),
        "p999_ms": percentile(0.999),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("command", choices=["produce", "consume", "small", "latency", "connect"])
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT, or 'mock' for librdkafka's mock cluster")
    parser.add_argument("--authority", help="for TLS: the file of the certificate to trust")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--size", type=int, default=100, help="bytes of one value")
    parser.add_argument("--count", type=int, default=1_000_000, help="records")
    parser.add_argument("--codec", choices=list(CODECS), default="none")
    parser.add_argument("--acks", default="1")
    parser.add_argument("--rate", type=int, default=1000, help="latency: messages a second")
    options = parser.parse_args()
    commands: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
        "produce": produce,
        "small": produce,
        "consume": consume,
        "latency": latency,
        "connect": connect,
    }
    print(json.dumps(commands[options.command](options)))


if __name__ == "__main__":
    main()
