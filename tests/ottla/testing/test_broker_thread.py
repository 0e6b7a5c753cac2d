"""A broker in a thread of this process: for blocking and asyncio clients, and nothing is left behind."""

import asyncio
import socket
import threading
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from ottla import Admin, NewTopic, testing
from storage.setting import ConfigError
from support.deadlines import DEADLINE_S
from support.polling import until, until_blocking


def produce(bootstrap_servers, value=b"one"):
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce("orders", value)
    assert producer.flush(DEADLINE_S) == 0


def consume(bootstrap_servers, count=1):
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        return [message.value() for message in consumer.consume(count, DEADLINE_S)]
    finally:
        consumer.close()


def test_a_blocking_client_in_the_thread_that_started_the_broker():
    with testing.broker() as broker:
        produce(broker.bootstrap_servers)
        assert consume(broker.bootstrap_servers) == [b"one"]


async def test_asyncio_clients_and_a_blocking_call_in_the_same_loop():
    async with testing.broker() as broker:
        servers = broker.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("orders", b"one")
        produce(servers, b"two")  # the caller's loop stands still meanwhile
        async with AIOKafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            values = {(await consumer.getone()).value for _ in range(2)}
    assert values == {b"one", b"two"}


def test_settings_are_kafkas():
    with testing.broker({"auto.create.topics.enable": "false", "broker.id": "7"}) as broker:

        async def described():
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                await admin.create_topics([NewTopic("orders", partitions=3)])
                return await admin.describe_topics()

        topics = asyncio.run(described())
    assert [partition.leader for partition in topics["orders"].partitions.values()] == [7, 7, 7]


def test_a_temporary_directory_is_removed_and_a_named_one_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with testing.broker() as broker:
        assert [path.name[:6] for path in tmp_path.iterdir()] == ["ottla-"]
        port = int(broker.bootstrap_servers.rpartition(":")[2])
    assert list(tmp_path.iterdir()) == []
    assert "ottla-broker" not in [thread.name for thread in threading.enumerate()]
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0

    kept = testing.broker(directory=tmp_path / "kept")
    with kept:
        produce(kept.bootstrap_servers)
    with kept:  # started again, with its data
        assert consume(kept.bootstrap_servers) == [b"one"]
    assert (tmp_path / "kept" / "orders-0").is_dir()


def test_a_start_that_fails_raises_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ConfigError, match=r"num\.partitions=x"):
        testing.broker({"num.partitions": "x"}).start()
    with testing.broker() as first:
        listener = f"PLAINTEXT://{first.bootstrap_servers}"
        with pytest.raises(Exception, match="in use"):
            testing.broker({"listeners": listener}).start()
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
    assert "ottla-broker" not in [thread.name for thread in threading.enumerate()]


def test_stop_raises_what_has_ended_the_broker(tmp_path):
    broker = testing.broker(directory=tmp_path).start()

    async def fail():
        raise MemoryError("as an example")

    running = broker.member.broker
    broker._loop.call_soon_threadsafe(lambda: running._tasks.create_task(fail()))
    until_blocking(lambda: broker.member.broker is None, "the broker has ended")
    with pytest.raises(BaseExceptionGroup) as caught:
        broker.stop()
    assert caught.group_contains(MemoryError)
    with pytest.raises(RuntimeError, match="does not run"):
        _ = broker.bootstrap_servers
    broker.stop()  # does nothing


async def test_a_cancelled_start_leaves_no_broker(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def run():
        async with testing.broker():
            raise AssertionError("the start was cancelled")

    starting = asyncio.create_task(run())
    await until(lambda: list(tmp_path.iterdir()), "the start has begun")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert list(tmp_path.iterdir()) == []
    assert "ottla-broker" not in [thread.name for thread in threading.enumerate()]


def test_start_twice_is_refused():
    with testing.broker() as broker, pytest.raises(RuntimeError, match="runs already"):
        broker.start()


def test_a_child_process_compacts_logs(tmp_path):
    """Child processes are waited for in the thread, with asyncio's loop and with uvloop's."""
    settings = {
        "log.cleanup.policy": "compact",
        "log.cleaner.backoff.ms": "20",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.segment.bytes": "1000",
    }
    with testing.broker(settings, directory=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        for _ in range(50):
            producer.produce("orders", bytes(100), b"key")
            producer.flush(DEADLINE_S)
        assert producer.flush(DEADLINE_S) == 0
        checkpoint = Path(tmp_path, "cleaner-offset-checkpoint")
        until_blocking(lambda: checkpoint.exists() and "orders 0" in checkpoint.read_text(), "the log is compacted")
