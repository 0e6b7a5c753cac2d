"""Bad input against a broker process: it stays up, its memory stays small, and its other clients are served.

What a client sends is its own affair: a frame that is no request costs the connection it came over, nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import resource
import struct
from collections import Counter

import psutil
import pytest

from broker.requests.api_table import API_TABLE
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.json import from_json
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch import FetchRequest
from support.broker import BrokerProcess
from support.counts import count
from support.messages import read_vectors, vector_files
from support.polling import until
from support.wire import ConnectionClosedError, append, batch, create_topic, fetch, frame, produce, wire_client

RSS_LIMIT = 300 << 20
SENTINEL = 0x5E4711
NUMBERS = itertools.count(1)
CONTROLLER = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}


class Served:
    """An ordinary client that produces and reads all the while, and measures the broker's memory."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.topic = f"served-{next(NUMBERS)}"
        self.rounds = 0
        self.peak_rss = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self):
        async with wire_client(self.process.bootstrap) as client:
            await create_topic(client, self.topic)
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, kind, *_):
        self.measure()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if kind is None:
            assert self.process.process.poll() is None, self.process.log_text()[-2000:]
            async with wire_client(self.process.bootstrap) as client:
                assert (await append(client, self.topic, batch(b"after"))).error_code == 0
            assert self.peak_rss <= RSS_LIMIT, f"{self.peak_rss / 1e6:.0f} MB"
            assert "Traceback" not in self.process.log_text()

    def measure(self) -> None:
        self.peak_rss = max(self.peak_rss, psutil.Process(self.process.pid).memory_info().rss)

    async def _run(self) -> None:
        async with wire_client(self.process.bootstrap) as client:
            while True:
                written = await append(client, self.topic, batch(b"v" * 100))
                assert written.error_code == 0, f"after {self.rounds} rounds: {ErrorCode(written.error_code).name}"
                one = (await client.call(fetch(self.topic, written.base_offset), 12)).responses[0].partitions[0]
                assert len(one.records) > 100
                self.rounds += 1
                self.measure()
                await asyncio.sleep(0.01)

    async def is_served(self) -> None:
        """Wait for another whole round."""
        after = self.rounds + 2
        await until(lambda: self.rounds >= after or self._task.done(), "the other client is served")
        if self._task.done():
            self._task.result()


@pytest.fixture
def process(tmp_path):
    """A broker for one test: of which the memory counts."""
    with BrokerProcess(tmp_path / "data", {"auto.create.topics.enable": "false"}) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A broker for all that is small."""
    folder = tmp_path_factory.mktemp("shared")
    with BrokerProcess(folder / "data", {"auto.create.topics.enable": "false"}) as running:
        yield running


# -- bytes that are no frames ------------------------------------------------------------------------------------------


def header(key, version, correlation_id=1, client_id=b"\0\1x"):
    return struct.pack(">hhi", key, version, correlation_id) + client_id


def framed(body):
    return struct.pack(">i", len(body)) + body


NO_REQUESTS = {
    "size 0": struct.pack(">i", 0) + b"x" * 20,
    "size -1": struct.pack(">i", -1) + b"x" * 20,
    "smallest size": struct.pack(">i", -(2**31)) + b"x" * 20,
    "largest size": struct.pack(">i", 2**31 - 1) + b"x" * 20,
    "over socket.request.max.bytes": struct.pack(">i", 104857601),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100f1010000ed0303") + b"\x11" * 240,
    "one byte": framed(b"x"),
    "half a header": framed(b"\0\3\0\0\0"),
    "header without client id": framed(struct.pack(">hhi", 3, 0, 1)),
    "client id beyond the frame": framed(header(3, 0, client_id=struct.pack(">h", 500) + b"abc")),
    "client id of length -2": framed(header(3, 0, client_id=struct.pack(">h", -2))),
    "client id that is no text": framed(header(3, 1, client_id=b"\0\2\xff\xfe") + b"\0\0\0\0"),
    "unknown api": framed(header(9999, 0) + b"\0" * 30),
    "negative api": framed(header(-1, 0) + b"\0" * 30),
    "api that is not served": framed(header(52, 0) + b"\0" * 30),  # Vote, of KRaft
    "giant array": framed(header(3, 1) + struct.pack(">i", 2**31 - 1)),
    "negative array": framed(header(3, 0) + struct.pack(">i", -5)),
    "no body": framed(header(0, 9, client_id=b"\0\1x\0")),
    "giant varint": framed(header(3, 9, client_id=b"\0\1x\0") + b"\xff" * 12),
}


@pytest.mark.parametrize("case", NO_REQUESTS)
async def test_no_request_closes_its_connection_alone(shared, case):
    logged = len(shared.log_text())
    async with Served(shared) as served:
        async with wire_client(shared.bootstrap) as client:
            client.send_raw(NO_REQUESTS[case])
            assert await client.is_closed()
        await served.is_served()
    lines = [line for line in shared.log_text()[logged:].splitlines() if "closing connection" in line]
    assert len(lines) == 1, lines


async def test_every_api_in_versions_that_are_not_served(shared):
    served = {row.key: row for row in API_TABLE}
    async with Served(shared) as other:
        for key in range(-2, 95):
            row = served.get(key)
            for version in (-1, -32768, 32767, row.max_version + 1 if row else 0):
                async with wire_client(shared.bootstrap) as client:
                    client.send_raw(framed(header(key, version) + b"\0" * 20))
                    if key == ApiKey.API_VERSIONS:
                        assert (await client.receive_raw())[4:6] == b"\0\x23"
                    else:
                        assert await client.is_closed(), (key, version)
        await other.is_served()


async def test_frames_that_arrive_byte_by_byte_and_are_cut_off(shared):
    """Cut off anywhere: nothing is answered, and what came before is."""
    data = frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    async with Served(shared) as served:
        for cut in range(len(data)):
            async with wire_client(shared.bootstrap) as client:
                client.send_raw(data + data[:cut])
                client.writer.write_eof()
                await client.receive_raw()
                assert await client.is_closed()
        async with wire_client(shared.bootstrap) as client:
            for position in range(len(data)):
                client.send_raw(data[position : position + 1])
                await client.writer.drain()
                await asyncio.sleep(0)
            await client.receive_raw()
        await served.is_served()


# -- fuzzing -----------------------------------------------------------------------------------------------------------


def corpus(controller: bool) -> list[tuple[int, int, bytes]]:
    """(API key, version, frame without size) of every recorded request, made short and harmless."""
    frames = []
    for file in vector_files():
        if not file[:2].isdigit():
            continue
        for cls, vector in read_vectors(file):
            if vector["kind"] != "request" or (vector["api_key"] in CONTROLLER) != controller:
                continue
            request = from_json(cls, vector["json"], vector["version"])
            for name in ("timeout_ms", "max_wait_ms"):
                if hasattr(request, name):
                    setattr(request, name, 1)
            if isinstance(request, CreateTopicsRequest | CreatePartitionsRequest):
                request.topics = request.topics[:1]
                request.validate_only = vector["version"] > 0 or isinstance(request, CreatePartitionsRequest)
            data = frame(request, vector["version"], 7)[4:]
            if len(data) < 4000:
                frames.append((vector["api_key"], vector["version"], data))
    return frames


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The frame with some of its bytes changed, cut out, repeated or made large; the head mostly stays."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        start = 0 if rng.random() < 0.05 else 8
        position = rng.randrange(start, max(len(changed), start + 1)) if len(changed) > start else 0
        kind = rng.randrange(7)
        if kind == 0:
            changed[position : position + 1] = bytes([rng.randrange(256)])
        elif kind == 1 and changed:
            position = min(position, len(changed) - 1)
            changed[position] ^= 1 << rng.randrange(8)
        elif kind == 2:
            changed[position : position + 4] = rng.choice(
                (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\x0f", b"\0\0\0\0")
            )
        elif kind == 3:
            del changed[position : position + rng.randrange(1, 9)]
        elif kind == 4:
            changed[position:position] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 5:
            del changed[position:]
        else:
            changed[position:position] = changed[position : position + rng.randrange(1, 30)]
    return bytes(changed)


class Fuzzer:
    """Sends mutated frames over one connection after another; a sentinel behind each says when it is dealt with."""

    def __init__(self, process: BrokerProcess, seed: int, frames: list[tuple[int, int, bytes]]) -> None:
        self.process = process
        self.rng = random.Random(seed)
        self.frames = frames
        served = {int(row.key) for row in API_TABLE}
        self.served = [one for one in frames if one[0] in served]
        self.outcomes: Counter[str] = Counter()
        self._sentinel = frame(ApiVersionsRequest(), 0, SENTINEL)

    async def run(self, number: int) -> None:
        sent = 0
        while sent < number:
            async with wire_client(self.process.bootstrap) as client:
                while sent < number:
                    sent += 1
                    if not await self._one(client):
                        break

    async def _one(self, client) -> bool:
        """Send one frame; False when the connection is of no use any more."""
        _, _, data = self.rng.choice(self.rng.choice((self.served, self.frames)))
        body = mutated(self.rng, data)
        lies = self.rng.random() < 0.05
        size = len(body) + self.rng.choice((-1, 1, 100, 1 << 20, -(1 << 20), 1 << 31 - 1)) if lies else len(body)
        client.send_raw(struct.pack(">i", size) + body)
        if lies:
            self.outcomes["size is a lie"] += 1
            client.writer.write_eof()
            return False
        client.send_raw(self._sentinel)
        try:
            async with asyncio.timeout(1):
                while True:
                    answer = await client.receive_raw()
                    if answer[:4] == struct.pack(">i", SENTINEL):
                        self.outcomes["answered"] += 1
                        return True
        except ConnectionClosedError:
            self.outcomes["closed"] += 1
        except TimeoutError:
            self.outcomes["waits"] += 1  # the mutation made a timeout long
        return False


async def fuzz(process: BrokerProcess, number: int, controller: bool) -> Counter[str]:
    frames = corpus(controller)
    fuzzers = [Fuzzer(process, seed, frames) for seed in range(16)]
    await asyncio.gather(*(fuzzer.run(-(-number // len(fuzzers))) for fuzzer in fuzzers))
    outcomes = sum((fuzzer.outcomes for fuzzer in fuzzers), Counter())
    assert outcomes.total() >= number
    return outcomes


@pytest.mark.counted
@pytest.mark.timeout(300)
async def test_mutated_frames_of_every_message_type(process):
    async with Served(process) as served:
        outcomes = await fuzz(process, count(3_000, 95_000), controller=False)
        await served.is_served()
    assert outcomes["answered"] > outcomes.total() / 10
    assert outcomes["closed"] > outcomes.total() / 5
    assert outcomes["waits"] < outcomes.total() / 20


@pytest.mark.counted
@pytest.mark.timeout(300)
async def test_mutated_frames_of_the_controller(process):
    """Whoever can send these may rule the cluster: so here only life and memory count."""
    outcomes = await fuzz(process, count(500, 10_000), controller=True)
    assert outcomes["closed"] > 0
    assert process.process.poll() is None, process.log_text()[-2000:]
    assert psutil.Process(process.pid).memory_info().rss <= RSS_LIMIT
    async with wire_client(process.bootstrap) as client:
        assert (await client.call(ApiVersionsRequest(), 0)).error_code == 0


@pytest.mark.counted
async def test_random_bytes(process):
    rng = random.Random(1)
    async with Served(process) as served:
        for _ in range(count(200, 5_000)):
            async with wire_client(process.bootstrap) as client:
                client.send_raw(rng.randbytes(rng.randrange(1, 600)))
                client.writer.write_eof()
                assert await client.is_closed()
        await served.is_served()


# -- memory ------------------------------------------------------------------------------------------------------------


async def test_clients_that_never_read(process):
    """Each asks for a hundred times 30 MB and takes nothing: what is not sent stays on disk."""
    async with Served(process) as served, wire_client(process.bootstrap) as client:
        await create_topic(client, "large")
        value = random.Random(1).randbytes(1_000_000)
        for _ in range(30):
            assert (await append(client, "large", batch(value))).error_code == 0
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(15):
                greedy = await stack.enter_async_context(wire_client(process.bootstrap))
                greedy.writer.transport.pause_reading()
                for _ in range(100):
                    greedy.send(fetch("large", partition_max_bytes=1 << 30, max_bytes=1 << 30), 12)
            for _ in range(5):
                await served.is_served()
        await served.is_served()


async def test_a_thousand_clients_that_announce_large_frames_and_stall(process):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    async with Served(process) as served, contextlib.AsyncExitStack() as stack:
        stalled = [await stack.enter_async_context(wire_client(process.bootstrap)) for _ in range(1000)]
        for client in stalled:
            client.send_raw(struct.pack(">i", 100 << 20) + header(0, 9) + b"\0" * 30_000)
        await asyncio.gather(*(client.writer.drain() for client in stalled))
        for _ in range(5):
            await served.is_served()
        assert not stalled[0].reader.at_eof()
        async with wire_client(process.bootstrap) as client:
            answer = await client.call(produce(served.topic, batch(b"v" * 900_000)))
            assert answer.responses[0].partition_responses[0].error_code == 0


async def test_many_waiting_fetches_of_clients_that_disconnect(process):
    async with Served(process) as served:
        for _ in range(5):
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(100):
                    client = await stack.enter_async_context(wire_client(process.bootstrap))
                    client.send(fetch(served.topic, 0, min_bytes=1 << 30, max_wait_ms=600_000), 12)
                await served.is_served()
        await served.is_served()


def test_corpus_has_every_message_type():
    keys = {key for key, _, _ in corpus(False) + corpus(True)}
    assert len(keys) == 62
    assert FetchRequest.API_KEY in keys
