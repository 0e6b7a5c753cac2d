"""Clients that have gone: what they leave in the broker's memory.

    python -m benchmarks.departed_clients --clients 100 --bytes 5000000

One client after the other connects, sends one produce request of that size, for a topic that does not exist, reads the
answer, and goes. The table shows the memory of the broker before and after.
"""

from __future__ import annotations

import argparse
import socket

from benchmarks.idle_connections import answered
from benchmarks.server import Ottla, directory
from client.wire.frames import encode_request
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION = 7
SMALL = 100


def send(port: int, clients: int, size: int) -> None:
    """Let clients connect, send a request, and go."""
    data = PartitionProduceData(index=0, records=bytes(size))
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    frame = b"".join(encode_request(request, PRODUCE_VERSION, 1, None))
    for _ in range(clients):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(frame)
            answered(connection)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=5_000_000)
    options = parser.parse_args()
    with Ottla(directory()) as server:
        send(server.port, 10, SMALL)  # so that everything is imported
        before = server.rss_bytes()
        send(server.port, options.clients, options.bytes)
        send(server.port, 1, SMALL)  # the broker has closed the last of them
        after = server.rss_bytes()
    print(f"| {options.clients:,} clients that send {options.bytes:,} B and go | |\n| --- | ---: |")
    print(f"| memory of the broker before | {before / 1e6:.0f} MB |")
    print(f"| after | {after / 1e6:.0f} MB |")


if __name__ == "__main__":
    main()
