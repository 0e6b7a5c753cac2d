"""The settings of a broker in its cluster, of topics, and of its periodic work, seen in a live broker."""

import asyncio
import contextlib
import json
import re

import pytest
from crc32c import crc32c

from broker.broker import Broker
from broker.first_commands import READY
from broker.settings.config import BrokerConfig
from client.wire.connection import Connection
from client.wire.network import AsyncioNetwork
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_cluster import DescribeClusterRequest
from registry.embedded.store import EmbeddedStore
from storage.setting import ConfigError
from support.broker import BrokerProcess, broker_process, settings
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.effects import shows
from support.live import UNSET, Clock, WatchedFileSystem, batch, live
from support.polling import until, until_blocking
from support.tcp_server import TcpServer

TIMESTAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
TWO_LISTENERS = {
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "listeners": "EXTERNAL://127.0.0.1:0,INTERNAL://127.0.0.1:0",
    "inter.broker.listener.name": "INTERNAL",
}


async def metadata_over(broker, listener):
    """What Metadata says to a client of this listener."""
    port = broker.broker.acceptors[listener].port
    async with await Connection.open("127.0.0.1", port) as connection:
        broker.connection = connection
        await connection.negotiate()
        return await broker.metadata()


# -- who the broker is ---------------------------------------------------------------------------------------------


@shows("broker.id", "node.id")
@pytest.mark.parametrize("name", ["broker.id", "node.id"])
async def test_the_broker_id_is_the_same_everywhere(name, tmp_path):
    async with live(tmp_path / "data", {name: "7"}) as broker:
        metadata = await broker.metadata()
        assert [node.node_id for node in metadata.brokers] == [7]
        assert metadata.controller_id == 7
        assert "broker.id=7" in (tmp_path / "data" / "meta.properties").read_text()


@shows("reserved.broker.max.id", "broker.id.generation.enable")
async def test_a_generated_id_is_above_the_reserved_ids(tmp_path):
    made = {"broker.id": "-1", "reserved.broker.max.id": "50"}
    async with live(tmp_path / "data", made) as broker:
        assert broker.broker.services.broker_id == 51
    with pytest.raises(ConfigError, match=r"broker\.id\.generation\.enable is false"):
        BrokerConfig.load(None, settings(tmp_path / "data") | made | {"broker.id.generation.enable": "false"})


@shows("reserved.broker.max.id")
def test_a_configured_id_above_the_reserved_ids_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"reserved\.broker\.max\.id \(50\)"):
        BrokerConfig.load(None, settings(tmp_path) | {"broker.id": "51", "reserved.broker.max.id": "50"})


@shows("broker.rack")
async def test_clients_see_the_rack(tmp_path):
    async with live(tmp_path / "data", {"broker.rack": "cellar"}) as broker:
        assert [node.rack for node in (await broker.metadata()).brokers] == ["cellar"]
        cluster = await broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=False))
        assert [node.rack for node in cluster.brokers] == ["cellar"]


# -- listeners -----------------------------------------------------------------------------------------------------


@shows("listeners", "listener.security.protocol.map", "inter.broker.listener.name")
async def test_each_listener_returns_its_own_address(tmp_path):
    async with live(tmp_path / "data", TWO_LISTENERS) as broker:
        acceptors = broker.broker.acceptors
        for name in ("INTERNAL", "EXTERNAL"):
            metadata = await metadata_over(broker, name)
            assert [(node.host, node.port) for node in metadata.brokers] == [("127.0.0.1", acceptors[name].port)]


@shows("inter.broker.listener.name")
@pytest.mark.parametrize("inter_broker", ["INTERNAL", "EXTERNAL"])
async def test_the_controller_connects_to_the_inter_broker_listener(inter_broker, tmp_path):
    both = TWO_LISTENERS | {"inter.broker.listener.name": inter_broker}
    config = BrokerConfig.load(None, settings(tmp_path / "data") | both)
    async with Broker(config) as broker:
        connected = {name: len(acceptor.connections) for name, acceptor in broker.acceptors.items()}
        assert connected == {"INTERNAL": 0, "EXTERNAL": 0} | {inter_broker: 1}


@shows("inter.broker.listener.name")
@pytest.mark.parametrize("listeners", ["EXTERNAL,INTERNAL", "INTERNAL,EXTERNAL", "INTERNAL"])
async def test_the_inter_broker_listener_is_not_returned_to_clients(listeners, tmp_path):
    named = {"listeners": ",".join(f"{name}://127.0.0.1:0" for name in listeners.split(","))}
    config = BrokerConfig.load(None, settings(tmp_path / "data") | TWO_LISTENERS | named)
    async with Broker(config) as broker:
        expected = broker.acceptors["EXTERNAL" if "EXTERNAL" in listeners else "INTERNAL"].port
        assert broker.bootstrap_servers == f"127.0.0.1:{expected}"


@shows("security.inter.broker.protocol")
async def test_security_inter_broker_protocol_selects_the_listener(tmp_path):
    names = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT"}
    both = {"listeners": "EXTERNAL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"}
    chosen = {"security.inter.broker.protocol": "PLAINTEXT"}
    async with live(tmp_path / "data", names | both | chosen) as broker:
        assert len(broker.broker.acceptors["PLAINTEXT"].connections) == 1
    only = {"listeners": "EXTERNAL://127.0.0.1:0"}
    with pytest.raises(ConfigError, match="must be one of the advertised listeners: EXTERNAL"):
        BrokerConfig.load(None, settings(tmp_path / "data") | names | only | chosen)


@shows("advertised.listeners")
async def test_clients_get_the_advertised_address(tmp_path):
    advertised = {"advertised.listeners": "EXTERNAL://broker.example:19092,INTERNAL://127.0.0.1:0"}
    config = BrokerConfig.load(None, settings(tmp_path / "data") | TWO_LISTENERS | advertised)
    async with (
        Broker(config) as broker,
        await Connection.open("127.0.0.1", broker.acceptors["EXTERNAL"].port) as connection,
    ):
        await connection.negotiate()
        cluster = await connection.request(DescribeClusterRequest(include_cluster_authorized_operations=False))
        assert [(node.host, node.port) for node in cluster.brokers] == [("broker.example", 19092)]


@shows("ottla.console.listener")
async def test_the_console_listens_at_its_configured_address(tmp_path):
    async with live(tmp_path / "data", {"ottla.console.listener": "127.0.0.1:0"}) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.broker.console.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert b" 200 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
    async with live(tmp_path / "data", {"ottla.console.listener": ""}) as broker:
        assert broker.broker.console is None


# -- the registry and the controller -------------------------------------------------------------------------------


@shows("zookeeper.session.timeout.ms")
@pytest.mark.parametrize(("timeout_ms", "ends"), [("60", True), ("60000", False)])
async def test_a_broker_that_is_cut_off_counts_as_dead_after_the_session_timeout(timeout_ms, ends, tmp_path):
    store = await EmbeddedStore.open(tmp_path / "registry.sqlite", now_ms=Clock())
    sessions = []
    open_session = store.session
    store.session = lambda timeout: sessions.append(open_session(timeout)) or sessions[-1]
    config = BrokerConfig.load(None, settings(tmp_path / "data") | {"zookeeper.session.timeout.ms": timeout_ms})
    broker = Broker(config, store=store)
    ready = asyncio.Event()
    running = asyncio.create_task(broker.run(lambda broker: ready.set()))
    await ready.wait()
    others = open_session(60_000)
    await others.start()
    gone = asyncio.Event()
    others.watch_children("/brokers/ids", gone.set)
    sessions[0].disconnect()
    if ends:
        await asyncio.wait_for(gone.wait(), DEADLINE_S)
        expired = sessions[0].session_id
        sessions[0].reconnect()
        await until(lambda: broker.controller.is_active and sessions[0].session_id != expired, "it is there again")
        broker.stop()
        await running
    else:
        await asyncio.wait([asyncio.create_task(gone.wait())], timeout=0.3)  # five times what ends the other one
        assert await others.children("/brokers/ids")
        sessions[0].reconnect()
        broker.stop()
        await running
        await asyncio.wait_for(gone.wait(), DEADLINE_S)
    await others.close()
    await store.close()


class SilentPeer(AsyncioNetwork):
    """Whoever connects over it gets a connection, and never an answer."""

    __slots__ = ("accepted", "server")

    def __init__(self):
        self.accepted = 0
        self.server = TcpServer(self._serve)

    async def connect(self, protocol_factory, host, port):
        await self.server.listen()
        return await super().connect(protocol_factory, "127.0.0.1", self.server.port)

    async def _serve(self, reader, writer):
        self.accepted += 1
        with contextlib.suppress(ConnectionError):
            await reader.read()


@shows("controller.socket.timeout.ms")
async def test_the_controller_reconnects_to_a_broker_that_does_not_answer(tmp_path):
    network = SilentPeer()
    config = BrokerConfig.load(None, settings(tmp_path / "data") | {"controller.socket.timeout.ms": "50"})
    broker = Broker(config, network=network)
    running = asyncio.create_task(broker.run())
    await until(lambda: network.accepted >= 3, "the controller gives up on a connection and opens another")
    broker.stop()
    await running
    await network.server.close()


# -- topics --------------------------------------------------------------------------------------------------------


@shows("auto.create.topics.enable")
@pytest.mark.parametrize("text", ["true", "false"])
async def test_topics_are_auto_created_if_enabled(text, tmp_path):
    async with live(tmp_path / "data", {"auto.create.topics.enable": text}) as broker:
        topic = (await broker.metadata("t")).topics[0]
        if text == "true":  # the leader may take a moment longer
            assert topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
            await until(lambda: "t" in broker.broker.metadata.snapshot.topics, "the topic is there")
        else:
            assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@shows("num.partitions")
async def test_topics_without_a_number_of_partitions(tmp_path):
    async with live(tmp_path / "data", {"num.partitions": "5"}) as broker:
        await broker.metadata("auto")
        await until(lambda: "auto" in broker.broker.metadata.snapshot.topics, "the topic is there")
        assert len(broker.broker.metadata.snapshot.topics["auto"].partitions) == 5
        assert (await broker.try_create("created", -1)).num_partitions == 5
        assert (await broker.try_create("chosen", 2)).num_partitions == 2


@shows("default.replication.factor")
async def test_topics_without_a_replication_factor(tmp_path):
    async with live(tmp_path / "data", {"default.replication.factor": "2"}) as broker:
        result = await broker.try_create("t", 1, -1)
        assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR  # there is one broker only
        assert (await broker.try_create("t", 1, 1)).error_code == 0


@shows("delete.topic.enable")
@pytest.mark.parametrize(("text", "code"), [("true", ErrorCode.NONE), ("false", ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_topics_can_be_deleted(text, code, tmp_path):
    async with live(tmp_path / "data", {"delete.topic.enable": text}) as broker:
        await broker.create("t")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=bytes(16))], timeout_ms=DEADLINE_MS)
        assert (await broker.ask(request)).responses[0].error_code == code
        assert ("t" in broker.broker.metadata.snapshot.topics) == (text == "false")


# -- requests ------------------------------------------------------------------------------------------------------


@shows("fetch.max.bytes")
async def test_fetch_answers_are_limited_in_size(tmp_path):
    async with live(tmp_path / "data", {"fetch.max.bytes": "2000"}) as broker:
        await broker.create("t")
        for _ in range(10):
            await broker.produce("t", [b"v" * 600])
        records = (await broker.fetch("t")).responses[0].partitions[0].records
        assert 600 < len(records) <= 2000


@shows("max.incremental.fetch.session.cache.slots")
@pytest.mark.parametrize("slots", [0, 1])
async def test_the_number_of_fetch_sessions_is_limited(slots, tmp_path):
    async with live(tmp_path / "data", {"max.incremental.fetch.session.cache.slots": str(slots)}) as broker:
        await broker.create("t")
        ids = [(await broker.fetch("t", session_epoch=0)).session_id for _ in range(2)]
        assert [bool(session_id) for session_id in ids] == [slots > 0, False]


@shows("ottla.produce.validation")
@pytest.mark.parametrize(("validation", "code"), [("headers", ErrorCode.NONE), ("full", ErrorCode.CORRUPT_MESSAGE)])
async def test_records_are_validated(validation, code, tmp_path):
    async with live(tmp_path / "data", {"ottla.produce.validation": validation}) as broker:
        await broker.create("t")
        damaged = batch([b"v" * 10])
        damaged[61] = 0x7E  # the record's length: 63 bytes, of which there are 16
        damaged[17:21] = crc32c(damaged[21:]).to_bytes(4, "big")
        assert (await broker.produce("t", damaged)).error_code == code


# -- directories, and work from time to time -----------------------------------------------------------------------


@shows("log.dirs", "log.dir")
async def test_data_is_in_the_log_directories(tmp_path):
    two = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    async with live(tmp_path, {"log.dirs": two, "log.dir": str(tmp_path / "c")}) as broker:
        await broker.create("t", 2)
    assert sorted(path.parent.name for path in tmp_path.glob("*/t-*")) == ["a", "b"]
    async with live(tmp_path, {"log.dirs": UNSET, "log.dir": str(tmp_path / "c")}) as broker:
        await broker.create("t", 2)
    assert len(list(tmp_path.glob("c/t-*"))) == 2


def checkpoint(tmp_path, name):
    with contextlib.suppress(FileNotFoundError):
        return (tmp_path / "data" / name).read_text().splitlines()[2:]
    return []


SOON = {"log.initial.task.delay.ms": "0"}


@shows("log.flush.offset.checkpoint.interval.ms", "log.flush.scheduler.interval.ms")
async def test_recovery_points_are_checkpointed(tmp_path):
    often = {
        "log.flush.offset.checkpoint.interval.ms": "20",
        "log.flush.scheduler.interval.ms": "20",
        "log.flush.interval.ms": "0",
    }
    async with live(tmp_path / "data", SOON | often) as broker:
        await broker.create("t")
        await broker.produce("t", [b"v"])
        await until(lambda: "t 0 1" in checkpoint(tmp_path, "recovery-point-offset-checkpoint"), "a checkpoint")
        assert "00000000000000000000.log" in broker.fs.synced


@shows("log.flush.start.offset.checkpoint.interval.ms")
async def test_log_start_offsets_are_checkpointed(tmp_path):
    often = {"log.flush.start.offset.checkpoint.interval.ms": "20"}
    async with live(tmp_path / "data", SOON | often) as broker:
        await broker.create("t")
        await broker.produce("t", [b"a", b"b", b"c"])
        broker.log("t").increment_log_start_offset(2)
        await until(lambda: "t 0 2" in checkpoint(tmp_path, "log-start-offset-checkpoint"), "a checkpoint")


@shows("replica.high.watermark.checkpoint.interval.ms")
async def test_high_watermarks_are_checkpointed(tmp_path):
    async with live(tmp_path / "data", {"replica.high.watermark.checkpoint.interval.ms": "20"}) as broker:
        await broker.create("t")
        await broker.produce("t", [b"v"])
        await until(lambda: "t 0 1" in checkpoint(tmp_path, "replication-offset-checkpoint"), "a checkpoint")


@shows("log.retention.check.interval.ms")
async def test_retention_is_checked_periodically(tmp_path):
    often = {"log.retention.check.interval.ms": "20", "log.retention.ms": "1000"}
    async with live(tmp_path / "data", SOON | often) as broker:
        await broker.create("t")
        await broker.produce("t", [b"v"])
        broker.clock.now_ms += 2000
        await until(lambda: broker.log("t").log_start_offset == 1, "retention")


@shows("log.initial.task.delay.ms")
async def test_the_first_check_comes_after_the_initial_delay(tmp_path):
    """The interval is five minutes, the delay otherwise half of one."""
    async with live(tmp_path / "data", {"log.retention.ms": "1000"}, restarts=True) as broker:
        await broker.create("t")
        await broker.produce("t", [b"v"])
    clock = Clock()
    clock.now_ms += 2000
    late_enough = {"log.retention.ms": "1000", "log.initial.task.delay.ms": "2000"}  # the log has to be there by then
    async with live(tmp_path / "data", late_enough, clock=clock, restarts=True) as broker:
        await until(lambda: broker.log("t").log_start_offset == 1, "the first retention")


@shows("num.recovery.threads.per.data.dir")
@pytest.mark.parametrize("threads", [1, 3])
async def test_logs_are_recovered_in_parallel(threads, tmp_path):
    async with live(tmp_path / "data", restarts=True) as broker:
        await broker.create("t", 5)
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    fs = WatchedFileSystem()
    overrides = {"num.recovery.threads.per.data.dir": str(threads)}
    config = BrokerConfig.load(None, settings(tmp_path / "data") | overrides)
    async with Broker(config, fs=fs):
        assert fs.most_running == threads


async def idempotent_producer_is_known(broker):
    await broker.create("t")
    records = batch([b"v"], producer_id=1000, producer_epoch=0, base_sequence=0)
    assert (await broker.produce("t", records)).error_code == 0
    return 1000 in broker.log("t").producers.producers


@shows("producer.id.expiration.ms", "producer.id.expiration.check.interval.ms")
async def test_idle_producers_expire(tmp_path):
    overrides = {"producer.id.expiration.ms": "1000", "producer.id.expiration.check.interval.ms": "20"}
    async with live(tmp_path / "data", overrides) as broker:
        assert await idempotent_producer_is_known(broker)
        broker.clock.now_ms += 2000
        await until(lambda: not broker.log("t").producers.producers, "the producer is forgotten")


@shows("producer.id.expiration.ms")
async def test_the_expiration_of_producers_changes_at_runtime(tmp_path):
    async with live(tmp_path / "data") as broker:
        assert await idempotent_producer_is_known(broker)
        broker.clock.now_ms += 2000
        await broker.broker.services.logs.expire_producers()
        assert broker.log("t").producers.producers
        await broker.set_dynamic(producer_id_expiration_ms="1000")
        await broker.broker.services.logs.expire_producers()
        assert not broker.log("t").producers.producers


# -- the log of the process ------------------------------------------------------------------------------------------


@shows("ottla.log.format")
def test_every_line_is_a_json_object(tmp_path):
    with BrokerProcess(tmp_path / "data", {"ottla.log.format": "json", "num.io.threads": "3"}).launch() as broker:
        until_blocking(lambda: READY in broker.log_text(), "the broker is ready")
        assert broker.stop() == 0
        lines = [json.loads(line) for line in broker.log_text().splitlines()]
    assert all(re.fullmatch(TIMESTAMP, line["timestamp"]) for line in lines)
    (ready,) = (line for line in lines if line["message"] == READY)
    assert ready["listening"] == [f"PLAINTEXT://{broker.bootstrap}"]
    assert (ready["data"], ready["console"]) == ([str(tmp_path / "data")], None)
    assert ("WARNING", "broker", "num.io.threads=3 has no effect in Ottla yet") in {
        (line["level"], line["logger"], line["message"]) for line in lines
    }
    assert lines[-1]["message"] == "stopped cleanly"


@shows("ottla.log.level")
@pytest.mark.parametrize(("level", "is_shown"), [("warn", False), ("INFO", True)])
def test_the_level_at_the_start(tmp_path, level, is_shown):
    with broker_process(tmp_path / "data", ottla_log_level=level) as broker:
        broker.stop()
        assert ("stopped cleanly" in broker.log_text()) is is_shown
