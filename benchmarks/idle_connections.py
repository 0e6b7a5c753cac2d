"""Thousands of connections that do nothing: what each costs the broker.

    python -m benchmarks.idle_connections --connections 10000

Each connection sends one ApiVersions request and then waits. The table shows the CPU time of the broker for connecting
and for that request, its memory, and its CPU time while all connections idle. Both processes need a descriptor for each
connection (`ulimit -n`).
"""

from __future__ import annotations

import argparse
import resource
import socket
import time

from benchmarks.server import Ottla, directory
from client.wire.frames import encode_request
from protocol.messages.api_versions import ApiVersionsRequest

AT_ONCE = 100
IDLE_S = 20.0
SPARE_DESCRIPTORS = 200


def answered(connection: socket.socket) -> None:
    """Read one whole answer."""
    received = bytearray()
    while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
        data = connection.recv(1 << 16)
        if not data:
            raise SystemExit("benchmarks: the broker has closed a connection")
        received += data


def connect(port: int, count: int) -> list[socket.socket]:
    """Open connections, some at a time, and get an answer on each."""
    frame, connections = b"".join(encode_request(ApiVersionsRequest(), 0, 1, None)), []
    while len(connections) < count:
        some = [socket.create_connection(("127.0.0.1", port)) for _ in range(min(AT_ONCE, count - len(connections)))]
        for one in some:
            one.sendall(frame)
        for one in some:
            answered(one)
        connections += some
    return connections


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10_000)
    count = parser.parse_args().connections
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < count + SPARE_DESCRIPTORS:
        raise SystemExit(f"benchmarks: {count} connections need more descriptors than `ulimit -Hn` allows ({hard})")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + SPARE_DESCRIPTORS, hard))
    with Ottla(directory()) as server:
        for connection in connect(server.port, 10):  # so that everything is imported
            connection.close()
        memory, cpu_s = server.rss_bytes(), server.cpu_seconds()
        connections = connect(server.port, count)
        opened_s = server.cpu_seconds() - cpu_s
        kib = (server.rss_bytes() - memory) / 1024
        time.sleep(1)
        cpu_s = server.cpu_seconds()
        time.sleep(IDLE_S)
        idle_s = (server.cpu_seconds() - cpu_s) / IDLE_S
        for connection in connections:
            connection.close()
    print(f"| {count:,} connections | |\n| --- | ---: |")
    print(f"| CPU of the broker to accept one and to answer one request | {opened_s / count * 1e6:.0f} µs |")
    print(f"| memory of the broker, each | {kib / count:.1f} KiB |")
    print(f"| CPU of the broker while all idle, together | {idle_s * 1000:.1f} ms a second |")


if __name__ == "__main__":
    main()
