"""Messages that are larger than records may be, against a real broker: in chunks, and left in a store."""

import asyncio
import hashlib
import itertools
import json
import random

import fsspec
import pytest
from crc32c import crc32c

from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.errors import BlobMissingError, ClaimError, InvalidOptionError, RecordTooLargeError
from client.large_messages.chunk_headers import ChunkHeaders
from client.large_messages.chunking_consumer import ChunkingConsumer
from client.large_messages.chunking_producer import ChunkingProducer
from client.large_messages.claim import Claim
from client.large_messages.claim_check_consumer import ClaimCheckConsumer
from client.large_messages.claim_check_producer import ClaimCheckProducer
from client.listener.ack_mode import AckMode
from client.listener.container import ListenerContainer
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.deadlines import DEADLINE_S
from support.polling import until
from support.quick_groups import quick_consumer

_NUMBERS = itertools.count(1)


@pytest.fixture
async def name(broker):
    """Of a group and a topic with three partitions that nobody else uses."""
    name = f"large-{next(_NUMBERS)}"
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.create_topic(name, 3)
    return name


@pytest.fixture
async def producer(broker):
    async with Producer(bootstrap_servers=broker.bootstrap, buffer_memory=100_000) as producer:
        yield producer


def consumer(broker, name, **options):
    return quick_consumer(broker.bootstrap, name, **{"group_id": name, "enable_auto_commit": False} | options)


async def take(source, count):
    found = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < count:
            found += itertools.chain(*(await source.getmany()).values())
    return found


async def committed(source, name):
    found = await source.committed([TopicPartition(name, number) for number in range(3)])
    return {number: one.offset for (_, number), one in found.items()}


# -- chunks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
async def test_messages_of_many_senders(broker, name, producer, seed):
    chosen = random.Random(seed)
    values = [chosen.randbytes(chosen.choice((0, 10, 999, 1_000, 1_001, 30_000, 250_000))) for _ in range(40)]
    large = ChunkingProducer(producer, chunk_size=1_000)
    written = await asyncio.gather(
        *(
            large.send(name, value, key=chosen.choice((None, b"a", b"b")), headers=[("n", b"%d" % number)])
            for number, value in enumerate(values)
        )
    )
    async with consumer(broker, name) as source:
        found = await take(ChunkingConsumer(source), 40)
    assert {record.headers: record.value for record in found} == {
        (("n", b"%d" % number),): value for number, value in enumerate(values)
    }
    assert sorted((record.partition, record.offset) for record in found) == sorted(
        (one.partition, one.offset) for one in written
    )


async def test_other_consumers_see_ordinary_records(broker, name, producer):
    await ChunkingProducer(producer, chunk_size=4).send(name, b"0123456789", key=b"k", partition=1)
    async with consumer(broker, name) as source:
        found = await take(source, 3)
    assert [(record.key, record.value, record.partition) for record in found] == [
        (b"k", b"0123", 1),
        (b"k", b"4567", 1),
        (b"k", b"89", 1),
    ]


async def test_commits_stay_below_unfinished_messages(broker, name, producer):
    headers = [ChunkHeaders(b"m" * 16, number, 3, 9, crc32c(b"012345678")).encode() for number in range(3)]
    here = TopicPartition(name, 0)
    await producer.send(name, b"small", partition=0)
    await producer.send(name, b"012", partition=0, headers=headers[0])
    await producer.send(name, b"345", partition=0, headers=headers[1])
    await producer.send(name, b"small too", partition=0)
    async with consumer(broker, name) as source:
        whole = ChunkingConsumer(source)
        assert [record.value for record in await take(whole, 2)] == [b"small", b"small too"]
        assert source.position(here) == 4
        await whole.commit()
        assert await committed(source, name) == {0: 1}
    await producer.send(name, b"678", partition=0, headers=headers[2])
    async with consumer(broker, name) as source:
        whole = ChunkingConsumer(source)
        first, second = await take(whole, 2)
        assert (first.value, second.value, second.offset) == (b"small too", b"012345678", 4)
        await whole.commit({here: 4})  # that of the message itself: it is not done with
        assert await committed(source, name) == {0: 1}
        whole.seek(here, 4)
        assert [record.value for record in await take(whole, 2)] == [b"small too", b"012345678"]
        await whole.commit()
        assert await committed(source, name) == {0: 5}


async def test_a_cancelled_send(broker, name, producer):
    sending = asyncio.create_task(ChunkingProducer(producer, chunk_size=90_000).send(name, b"y" * 20_000_000))
    async with consumer(broker, name, group_id=None) as source:
        first = (await take(source, 1))[0]
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await producer.send(name, b"after", partition=first.partition)
    async with consumer(broker, name) as source:
        (record,) = await take(ChunkingConsumer(source), 1)
    assert record.value == b"after"


async def test_chunks_that_are_too_large(broker, name):
    async with Producer(bootstrap_servers=broker.bootstrap, max_request_size=2_000) as small:
        with pytest.raises(RecordTooLargeError):
            await ChunkingProducer(small, chunk_size=3_000).send(name, b"x" * 7_000)


async def test_a_container_receives_complete_messages(broker, name, producer):
    """Handlers that are held: what is committed stays below the first chunk of their messages."""
    large = ChunkingProducer(producer, chunk_size=10)
    for number in range(4):
        await large.send(name, b"%d" % number * 25, key=b"%d" % number, partition=0)  # three records each
    held, done = asyncio.Event(), []

    async def handler(record):
        if record.value.startswith(b"1"):
            await held.wait()
        done.append(record.value[:1])

    async with consumer(broker, name) as source:
        whole = ChunkingConsumer(source)
        async with ListenerContainer(
            whole, handler, concurrency=4, ack_mode=AckMode.RECORD, poll_timeout_ms=20
        ) as container:
            await container.start()
            await until(lambda: sorted(done) == [b"0", b"2", b"3"], "all but one")
            async with asyncio.timeout(DEADLINE_S):
                while await committed(source, name) != {0: 3}:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            held.set()
            await until(lambda: len(done) == 4, "all")
        assert await committed(source, name) == {0: 12}


async def test_invalid_options_are_refused(broker, producer):
    with pytest.raises(InvalidOptionError, match="chunk_size=0"):
        ChunkingProducer(producer, chunk_size=0)
    for wrapper in (ChunkingProducer, ChunkingConsumer):
        with pytest.raises(InvalidOptionError, match="no option colour"):
            wrapper(producer, colour="blue")
    for wrapper in (ClaimCheckProducer, ClaimCheckConsumer):
        with pytest.raises(InvalidOptionError, match="no option colour"):
            wrapper(producer, store="memory://x", colour="blue")
    with pytest.raises(InvalidOptionError, match="enable_auto_commit=True"):
        ChunkingConsumer(Consumer("t", group_id="g"))
    for wrapper in (ChunkingProducer, lambda one: ClaimCheckProducer(one, store="memory://x")):
        with pytest.raises(InvalidOptionError, match="value_serializer"):
            wrapper(Producer(value_serializer=bytes))
    with pytest.raises(InvalidOptionError, match=r"store='nothing://x'"):
        ClaimCheckProducer(producer, store="nothing://x")


# -- claim checks ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    return f"file://{tmp_path}/large" if request.param == "file" else f"memory://large-{next(_NUMBERS)}"


async def test_values_in_a_store(broker, name, producer, store):
    large = ClaimCheckProducer(producer, store=store, threshold=100)
    values = [b"a" * 100, b"b" * 101, b"c" * 3_000_000, None, b""]
    for value in values:
        await large.send(name, value, key=b"k", headers=[("h", b"1")], partition=0)
    async with consumer(broker, name) as source:
        found = await take(ClaimCheckConsumer(source, store=store, max_loaded_bytes=200), 5)
    assert [record.value for record in found] == values
    assert {record.headers for record in found} == {(("h", b"1"),)}
    async with consumer(broker, name, group_id=f"{name}-other") as source:
        record = (await take(source, 5))[1]  # who knows nothing of this
    claim = json.loads(record.value)
    assert (claim["size"], claim["sha256"], claim["store"]) == (101, hashlib.sha256(b"b" * 101).hexdigest(), store)
    assert dict(record.headers) == {"h": b"1", "ottla-claim-check": b"1"}


async def test_a_value_that_is_missing_or_damaged(broker, name, producer, tmp_path):
    large = ClaimCheckProducer(producer, store=f"file://{tmp_path}", threshold=10)
    for number in range(4):
        await large.send(name, b"%d" % number * 20, partition=0)
    files = {path.read_bytes()[:1]: path for path in tmp_path.rglob("*") if path.is_file()}
    files[b"1"].unlink()
    files[b"2"].write_bytes(b"2" * 19 + b"3")
    partition = TopicPartition(name, 0)
    async with consumer(broker, name) as inner:
        source = ClaimCheckConsumer(inner, store=f"file://{tmp_path}")
        assert [record.value for record in await take(source, 1)] == [b"0" * 20]
        for _ in range(2):
            with pytest.raises(BlobMissingError, match=f"{name}-0 offset 1: file://.*{files[b'1'].name} is missing"):
                await source.getmany()
            assert inner.position(partition) == 1
        source.seek(partition, 2)
        with pytest.raises(ClaimError, match=f"offset 2: .*{files[b'2'].name}: its 20 bytes are not the 20 stored"):
            await source.getmany()
        source.seek(partition, 3)
        assert [record.value for record in await take(source, 1)] == [b"3" * 20]


class Unreachable(fsspec.AbstractFileSystem):
    """A store whose library has an error of its own for that nobody answers, as botocore has."""

    def pipe_file(self, path, value, mode="overwrite", **options):
        raise RuntimeError("nobody answers")

    def cat_file(self, path, start=None, end=None, **options):
        raise RuntimeError("nobody answers")


async def test_a_store_that_does_not_answer(broker, name, producer):
    fsspec.register_implementation("unreachable", Unreachable, clobber=True)
    large = ClaimCheckProducer(producer, store="unreachable://x", threshold=10)
    with pytest.raises(OSError, match=f"unreachable://x/{name}/.*: nobody answers"):
        await large.send(name, b"1" * 11)
    await ClaimCheckProducer(producer, store="memory://x", threshold=10).send(name, b"1" * 11, partition=0)
    async with consumer(broker, name) as inner:
        source = ClaimCheckConsumer(inner, store="unreachable://x")
        with pytest.raises(OSError, match="nobody answers"):
            await source.getmany()
        assert inner.position(TopicPartition(name, 0)) == 0


@pytest.mark.parametrize("path", ["../secret", "/etc/hostname", "a/../b", "", "a//b", ".hidden"])
def test_a_claim_stays_in_its_store(path):
    claim = Claim.of("file:///x", path, b"")
    with pytest.raises(ClaimError, match="name="):
        Claim.decode(claim.encode())


@pytest.mark.parametrize("value", [None, b"", b"{}", b"[]", b'{"store": 1}', b"\xff"])
def test_records_that_are_not_claims(value):
    with pytest.raises(ClaimError, match="not a claim"):
        Claim.decode(value)
