"""A command that sends records says within seconds why they are not acknowledged, and goes on."""

import asyncio
import io

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.producer.producer import Producer
from ottla.commands.perf_run import ProduceRun
from ottla.records.line_source import read_lines
from ottla.records.outgoing import PlainLines, RecordDefaults
from ottla.records.sending import Sending
from registry.embedded.store import EmbeddedStore
from support.broker import settings
from support.faulty_disk import FaultyFileSystem
from support.polling import until
from support.wire import create_topic, wire_client


class PerfProduce:
    """`ottla perf produce`."""

    def __init__(self, producer):
        self._run = ProduceRun(producer, "t", None, 30, 10, 0, live=True)

    async def run(self):
        await self._run.run()
        return self._run.result.records


class Produce:
    """`ottla produce`, with a file."""

    def __init__(self, producer):
        self._producer = producer
        parse = PlainLines(RecordDefaults("t", lambda _: None), separator=None, null_marker=None)
        self._sending = Sending(parse, "")

    async def run(self):
        await self._sending.run(self._producer, read_lines(io.BytesIO(b"line\n" * 30)))
        return self._sending.sent


@pytest.fixture
async def store():
    store = await EmbeddedStore.open()
    yield store
    await store.close()


@pytest.mark.parametrize("command", [PerfProduce, Produce])
async def test_a_full_disk(tmp_path, store, capsys, command):
    fs = FaultyFileSystem(tmp_path)
    config = BrokerConfig.load(None, settings(tmp_path / "data"))
    async with Broker(config, fs=fs, store=store) as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t")
        fs.full = {tmp_path}
        said = ""

        def heard():
            nonlocal said
            said += capsys.readouterr().err
            return said

        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            sending = asyncio.create_task(command(producer).run())
            await until(heard, "the warning")
            await until(lambda: fs.refused > 20, "more attempts are refused")
            fs.full = set()
            assert await sending == 30
        heard()
        assert said.startswith("ottla: no acknowledgement yet, still trying: ")
        assert "KAFKA_STORAGE_ERROR" in said
        assert said.count("\n") == 1
