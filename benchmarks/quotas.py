"""What quotas cost: CPU time of one small Produce request, from frame to answer, without and with quotas.

    python -m benchmarks.quotas

The requests are passed to the dispatcher of a broker in this process, so the cost of the socket is not included: with
it, the shares would be smaller. The cases take turns, and the medians are compared.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import uvloop

from broker.broker import Broker
from broker.network.connection import Connection
from broker.requests.dispatcher import Dispatcher
from broker.settings.config import BrokerConfig
from client.admin.admin import Admin
from protocol.headers import RequestHeader, request_header_version
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.record_batch_builder import RecordBatchBuilder

REQUESTS = 5000
ROUNDS = 15
VERSION = 9
PRODUCER = {"producer_byte_rate": "1000000000"}
BOTH = {**PRODUCER, "request_percentage": "1000000.0"}
CASES: dict[str, dict[str, dict[str, str]]] = {
    "no quotas": {},
    "quotas, but none for this client": {"users/somebody-else": BOTH},
    "producer_byte_rate": {"users/ANONYMOUS": PRODUCER},
    "producer_byte_rate and request_percentage": {"users/ANONYMOUS": BOTH},
}


def frame() -> memoryview:
    """Return a Produce request with one record of 100 bytes."""
    builder = RecordBatchBuilder()
    builder.append(1_700_000_000_000, None, b"x" * 100)
    data = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="small", partition_data=[data])]
    )
    header = RequestHeader(
        request_api_key=request.API_KEY, request_api_version=VERSION, correlation_id=1, client_id="benchmark"
    )
    pieces = header.encode(request_header_version(request.API_KEY, VERSION)) + request.encode(VERSION)
    return memoryview(b"".join(bytes(piece) for piece in pieces))


async def set_quotas(broker: Broker, quotas: dict[str, dict[str, str]]) -> None:
    """Replace the quotas of all entities."""
    assert broker.services is not None
    entities = broker.services.configs.entities
    for path in set(await entities.read_all()) | set(quotas):
        wanted = quotas.get(path, {})
        await entities.alter(path, lambda config, wanted=wanted: dict(wanted))  # type: ignore[misc]


def measure(dispatcher: Dispatcher, connection: Connection, request: memoryview) -> float:
    """Return the CPU microseconds of one request."""
    started_s = time.process_time()
    for _ in range(REQUESTS):
        dispatcher.handle_frame(request, connection)
    return (time.process_time() - started_s) / REQUESTS * 1e6


async def main(folder: str) -> None:
    """Measure all cases and print a table."""
    request = frame()
    times: dict[str, list[float]] = {name: [] for name in CASES}
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": folder, "ottla.console.listener": ""}
    async with Broker(BrokerConfig.load(None, settings)) as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic("small", 1)
        acceptor = broker.acceptors["PLAINTEXT"]
        dispatcher: Dispatcher = acceptor.handle_frame.__self__  # type: ignore[attr-defined]
        connection = next(iter(acceptor.connections))
        for _ in range(ROUNDS):
            for name, quotas in CASES.items():
                await set_quotas(broker, quotas)
                times[name].append(measure(dispatcher, connection, request))
    medians = {name: statistics.median(values) for name, values in times.items()}
    floor = medians["no quotas"]
    for name, median in medians.items():
        print(f"{name:45} {median:7.2f} us  {median / floor - 1:+7.2%}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        uvloop.run(main(directory))
