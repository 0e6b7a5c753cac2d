"""The console over HTTP: health, readiness, the cluster as JSON, who may ask, and its address."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker.broker import Broker, wall_clock_ms
from broker.cluster.metadata_cache import Snapshot
from broker.console.front import ConsoleFront
from broker.console.readiness import reason_not_ready
from broker.errors import BrokerStartError
from broker.settings.config import BrokerConfig
from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from ottla.cluster.ports import free_ports
from protocol.host_port import HostPort
from protocol.uuid import uuid_to_string
from registry.embedded.store import EmbeddedStore
from registry.znodes.controller import ControllerZnode
from support.broker import ROOT, BrokerProcess, running_broker, settings
from support.deadlines import DEADLINE_S
from support.polling import until


@asynccontextmanager
async def console(broker: Broker) -> AsyncIterator[aiohttp.ClientSession]:
    assert broker.console is not None
    async with aiohttp.ClientSession(f"http://127.0.0.1:{broker.console.port}") as http:
        yield http


@asynccontextmanager
async def broker_with_console(
    directory: Path, listener: str = "127.0.0.1:0", **others: str
) -> AsyncIterator[tuple[Broker, aiohttp.ClientSession]]:
    async with running_broker(directory, ottla_console_listener=listener, **others) as broker, console(broker) as http:
        yield broker, http


async def get(http: aiohttp.ClientSession, path: str, **options: Any) -> tuple[int, str]:
    async with http.get(path, **options) as response:
        return response.status, await response.text()


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def has_loaded(pid: int, package: str) -> bool:
    """Whether a process has an extension module of this package in memory."""
    return f"/{package}/" in Path(f"/proc/{pid}/maps").read_text()


# -- health and readiness -------------------------------------------------------------------------------------------


async def test_a_ready_broker_is_alive_and_ready(tmp_path: Path) -> None:
    async with broker_with_console(tmp_path / "data") as (_, http):
        assert await get(http, "/healthz") == (200, "alive\n")
        assert await get(http, "/readyz") == (200, "ready\n")


async def test_a_broker_is_alive_but_not_ready_until_the_controller_sends_it_metadata(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "registry.sqlite", now_ms=wall_clock_ms)
    other = store.session(60_000)
    await other.start()
    path = ControllerZnode.path()
    # A controller that says nothing: the broker registers and waits.
    await other.create(path, ControllerZnode(broker=99, timestamp_ms=0).encode(), ephemeral=True, make_parents=True)
    config = BrokerConfig.load(None, settings(tmp_path / "data") | {"ottla.console.listener": "127.0.0.1:0"})
    broker = Broker(config, store=store)
    running = asyncio.create_task(broker.run())
    try:
        await until(lambda: broker.services and broker.services.broker_epoch >= 0, "the broker registers")
        async with console(broker) as http:
            assert await get(http, "/healthz") == (200, "alive\n")
            status, text = await get(http, "/readyz")
            assert status == 503
            assert text == "not ready: no controller has sent metadata yet\n"
            cluster = json.loads((await get(http, "/api/cluster"))[1])
            assert cluster["not_ready"] == "no controller has sent metadata yet"
            await other.delete(path)
            await until(lambda: broker.metadata.snapshot.brokers, "the broker becomes the controller")
            assert await get(http, "/readyz") == (200, "ready\n")
    finally:
        broker.stop()
        await running
        await other.close()
        await store.close()


async def test_each_reason_not_to_be_ready(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data") as broker:
        services = broker.services
        assert services is not None
        ready = broker.metadata.snapshot
        # No await from here on: the snapshot stays what the test makes it.
        assert reason_not_ready(services, broker) is None
        broker.metadata.snapshot = Snapshot(-1, ready.brokers, {}, {})
        assert reason_not_ready(services, broker) == "no controller is known"
        broker.metadata.snapshot = Snapshot(7, {7: ready.brokers[0]}, {}, {})
        assert reason_not_ready(services, broker) == (
            "the controller's metadata does not have broker 0 as a live broker yet"
        )
        broker.metadata.snapshot = ready
        epoch, services.broker_epoch = services.broker_epoch, -1
        assert reason_not_ready(services, broker) == "the broker is not registered yet"
        services.broker_epoch = epoch
        directory = services.logs.dirs.all[0]
        directory.write_refused((0, 1))
        assert reason_not_ready(services, broker) == f"log directory {directory.path} is full"
        assert directory.has_room()
        assert reason_not_ready(services, broker) is None
        directory.failure = "/data: Input/output error"
        assert reason_not_ready(services, broker) == (
            f"log directory {directory.path} is offline: /data: Input/output error"
        )
        directory.failure = None
        broker.stop()
        assert reason_not_ready(services, broker) == "the broker is stopping"


# -- the cluster ----------------------------------------------------------------------------------------------------


async def test_cluster_shows_brokers_topics_offsets_and_sizes(tmp_path: Path) -> None:
    async with broker_with_console(tmp_path / "data") as (broker, http):
        servers = broker.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_topic("things", 2)
            async with Producer(bootstrap_servers=servers) as producer:
                for number in range(5):
                    await producer.send("things", partition=1, value=b"%d" % number)
            await admin.delete_records({TopicPartition("things", 1): 2})
        status, text = await get(http, "/api/cluster")
        cluster = json.loads(text)
        services = broker.services
        assert services is not None
        assert status == 200
        assert cluster["cluster_id"] == services.cluster_id
        assert cluster["broker_id"] == 0
        assert cluster["not_ready"] is None
        assert cluster["bootstrap_servers"] == servers
        assert all(servers in command for command in cluster["commands"])
        assert cluster["controller"] == {"id": 0, "epoch": 1, "is_this_broker": True}
        host, port = servers.split(":")
        assert cluster["brokers"] == [
            {"id": 0, "rack": None, "listeners": [{"name": "PLAINTEXT", "host": host, "port": int(port)}]}
        ]
        assert cluster["counters"]["produced_records"] == 5
        (topic,) = cluster["topics"]
        assert topic["name"] == "things"
        assert topic["id"] == uuid_to_string(broker.metadata.snapshot.topics["things"].topic_id)
        assert not topic["is_internal"]
        log = services.logs.get("things", 1)
        assert log is not None
        assert log.size_bytes > 0
        same = {"leader": 0, "leader_epoch": 0, "replicas": [0], "isr": [0]}
        offsets = {"log_start_offset": 0, "high_watermark": 0, "log_end_offset": 0, "size_bytes": 0}
        written = {
            "log_start_offset": 2, "high_watermark": 5, "log_end_offset": 5, "size_bytes": log.size_bytes
        }  # fmt: skip
        assert topic["partitions"] == [
            {"partition": 0} | same | offsets,
            {"partition": 1} | same | written,
        ]


async def test_a_partition_on_another_broker_has_no_offsets_and_a_dead_leader_is_not_shown(
    tmp_path: Path,
) -> None:
    async with broker_with_console(tmp_path / "data") as (broker, http):
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic("things", 1)
        services = broker.services
        assert services is not None
        state = broker.metadata.snapshot.partition("things", 0)
        assert state is not None
        here = services.replicas.partitions.pop(("things", 0))
        state.leader = 5  # not among the live ones
        (topic,) = json.loads((await get(http, "/api/cluster"))[1])["topics"]
        (partition,) = topic["partitions"]
        assert partition["leader"] is None
        assert partition["log_end_offset"] is None
        assert partition["size_bytes"] is None
        services.replicas.partitions[("things", 0)] = here


async def test_groups_and_their_lag(tmp_path: Path) -> None:
    async with broker_with_console(tmp_path / "data") as (broker, http):
        services, servers = broker.services, broker.bootstrap_servers
        assert services is not None

        async def told() -> Any:
            return json.loads((await get(http, "/api/cluster"))[1])["groups"]

        assert await told() == []
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            await admin.create_topic("things", 2)
            for number in range(5):
                await producer.send("things", partition=1, value=b"%d" % number)
            for group_id, number, offset in (("b", 1, 2), ("a", 0, 9)):  # 9 is more than there is
                offsets = {TopicPartition("things", number): OffsetAndMetadata(offset)}
                await admin.alter_group_offsets(group_id, offsets)
        a, b = await told()
        assert (a["group_id"], a["offsets"][0]["high_watermark"], a["offsets"][0]["lag"]) == ("a", 0, 0)
        offsets = {"topic": "things", "partition": 1, "committed_offset": 2}
        assert b == {
            "group_id": "b",
            "type": "classic",
            "state": "Empty",
            "members": 0,
            "offsets": [offsets | {"high_watermark": 5, "lag": 3}],
        }
        here = services.replicas.partitions.pop(("things", 1))  # as if it were elsewhere
        assert (await told())[1]["offsets"] == [offsets | {"high_watermark": None, "lag": None}]
        services.replicas.partitions["things", 1] = here


# -- who may ask, and for what --------------------------------------------------------------------------------------


async def test_only_get_and_head(tmp_path: Path) -> None:
    async with broker_with_console(tmp_path / "data") as (_, http):
        for path in ("/", "/healthz", "/metrics", "/api/cluster"):
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
                async with http.request(method, path, json={}) as response:
                    assert response.status == 405, (method, path)
            async with http.head(path) as response:
                assert response.status == 200
                assert await response.read() == b""
        assert (await get(http, "/nothing"))[0] == 404
        assert (await get(http, "/../server.py"))[0] == 404


async def test_every_answer_has_the_security_headers_and_none_allows_other_origins(tmp_path: Path) -> None:
    async with broker_with_console(tmp_path / "data") as (_, http):
        for path in ("/", "/static/app.js", "/healthz", "/metrics", "/api/cluster", "/nothing"):
            async with http.get(path, headers={"Origin": "http://example.org"}) as response:
                headers = response.headers
                assert headers["Content-Security-Policy"].startswith("default-src 'none';"), path
                assert headers["X-Content-Type-Options"] == "nosniff"
                assert not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("ottla.localhost", 200),
        ("localhost.", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8080", 200),
        ("10.0.0.7", 200),
        ("attacker.example", 403),
        ("localhost.attacker.example", 403),
        ("127.0.0.1.attacker.example", 403),
        ("", 403),
    ],
)
async def test_host_header_on_a_loopback_address(tmp_path: Path, host: str, status: int) -> None:
    async with broker_with_console(tmp_path / "data") as (_, http):
        for path in ("/", "/api/cluster", "/nothing"):
            expected = 404 if path == "/nothing" and status == 200 else status
            assert (await get(http, path, headers={"Host": host}))[0] == expected


async def test_any_host_header_on_another_address(tmp_path: Path) -> None:
    async with broker_with_console(tmp_path / "data", "0.0.0.0:0", ottla_console_open="read") as (_, http):
        assert (await get(http, "/readyz", headers={"Host": "ottla.cluster.example:8080"}))[0] == 200


async def test_static_files_are_sent_once(tmp_path: Path) -> None:
    async with broker_with_console(tmp_path / "data") as (_, http):
        async with http.get("/") as response:
            assert response.content_type == "text/html"
            page = await response.text()
            tag = response.headers["ETag"]
        assert "<title>Ottla</title>" in page
        assert "http://" not in page  # nothing from elsewhere
        assert "https://" not in page
        async with http.get("/", headers={"If-None-Match": tag}) as response:
            assert response.status == 304
            assert await response.read() == b""


# -- the address ----------------------------------------------------------------------------------------------------


async def test_without_a_listener_there_is_no_console(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data") as broker:
        assert broker.console is None


async def test_an_address_in_use_is_reported_with_name_value_and_rule(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    in_use = pytest.raises(BrokerStartError, match="Address already in use")
    with socket.create_server(("127.0.0.1", port)), in_use as caught:
        async with running_broker(tmp_path / "data", ottla_console_listener=address):
            pass
    assert str(caught.value) == (
        f"ottla.console.listener={address}: must be a free address of this machine, "
        "or empty for no console (Address already in use)"
    )
    async with broker_with_console(tmp_path / "data", address) as (_, http):  # nothing was left locked or bound
        assert await get(http, "/readyz") == (200, "ready\n")


@pytest.mark.parametrize("is_set", [False, True])
async def test_only_a_default_address_in_use_is_replaced_by_a_free_one(
    caplog: pytest.LogCaptureFixture, is_set: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = HostPort("127.0.0.1", taken.getsockname()[1])
        config = BrokerConfig.load(overrides={"ottla.console.listener": str(address)} if is_set else {})
        front = ConsoleFront(config, address, None, None, lambda: 0)
        if is_set:
            with pytest.raises(BrokerStartError, match="must be a free address"):
                await front.bind()
            return
        await front.bind()
        with closing(front), socket.create_connection(("127.0.0.1", front.port)):
            found = f"127.0.0.1:{front.port}"
            assert front.url == f"http://{found}/"
            assert caplog.messages == [
                f"{address} is in use, and ottla.console.listener is not set: the console listens on {found}"
            ]


def test_an_address_of_another_machine_ends_the_process_with_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "broker"]
    console = {"ottla.console.listener": "192.0.2.1:8080", "ottla.console.open": "read"}
    for name, value in (settings(tmp_path / "data") | console).items():
        command += ["--set", f"{name}={value}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("ottla: ottla.console.listener=192.0.2.1:8080: must be")
    assert "Traceback" not in ended.stderr


async def test_every_interface_is_one_port_on_each_of_its_addresses(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", ottla_console_listener=":0", ottla_console_open="") as broker:
        assert broker.console is not None
        assert not broker.console.is_loopback
        assert broker.console.url == f"http://localhost:{broker.console.port}/"
        hosts = ["127.0.0.1", "[::1]"] if has_ipv6() else ["127.0.0.1"]
        async with aiohttp.ClientSession() as http:
            for host in hosts:
                assert await get(http, f"http://{host}:{broker.console.port}/healthz") == (200, "alive\n")


async def test_localhost_is_a_loopback_address(tmp_path: Path) -> None:
    async with broker_with_console(tmp_path / "data", "localhost:0") as (broker, http):
        assert broker.console is not None
        assert broker.console.is_loopback
        assert await get(http, "/healthz") == (200, "alive\n")


async def test_a_broker_stops_while_clients_keep_their_connections(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as http:
        async with running_broker(tmp_path / "data", ottla_console_listener="127.0.0.1:0") as broker:
            assert broker.console is not None
            address = f"http://127.0.0.1:{broker.console.port}/healthz"
            assert await get(http, address) == (200, "alive\n")
        with pytest.raises(aiohttp.ClientError):
            await get(http, address)


async def test_a_broker_without_console_requests_stops(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with running_broker(tmp_path / "data", ottla_console_listener=f"127.0.0.1:{port}"):
        pass
    with socket.create_server(("127.0.0.1", port)):  # free again
        pass


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads what a process has mapped from /proc")
async def test_aiohttp_is_loaded_by_the_first_connection_and_pydantic_by_the_api(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with BrokerProcess(tmp_path / "data", {"ottla.console.listener": f"127.0.0.1:{port}"}) as process:
        assert not any(has_loaded(process.pid, one) for one in ("aiohttp", "pydantic_core"))
        async with aiohttp.ClientSession() as http:
            assert (await get(http, f"http://127.0.0.1:{port}/readyz"))[0] == 200
            assert has_loaded(process.pid, "aiohttp")
            assert not has_loaded(process.pid, "pydantic_core")
            assert (await get(http, f"http://127.0.0.1:{port}/v3/clusters"))[0] == 200
            assert has_loaded(process.pid, "pydantic_core")
        assert f"  console     http://127.0.0.1:{port}/\n" in process.log_text()
        assert process.stop() == 0
