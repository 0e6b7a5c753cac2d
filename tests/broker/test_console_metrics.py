"""/metrics: read by Prometheus's own parsers, and held to what the broker really did."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from broker.broker import Broker
from broker.console.exposition import Exposition
from broker.console.metrics import COUNTER, DURATION, METRICS
from broker.metrics import LATENCY_BUCKETS_S
from client.admin.admin import Admin
from client.consumer.reader import Reader
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.broker import ROOT, running_broker
from support.console import READS_ALL
from support.polling import until

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]
MESSAGES = 30


def samples_of(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


async def scrape(broker: Broker) -> Samples:
    assert broker.console is not None
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{broker.console.port}/metrics") as response,
    ):
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return samples_of(await response.text())


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[(name, frozenset(labels.items()))]


async def write_and_read(broker: Broker) -> None:
    """Topic "things" with 2 partitions: 30 messages in partition 1, each a request of its own, read once."""
    servers = broker.bootstrap_servers
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic("things", 2)
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(MESSAGES):
            await producer.send("things", partition=1, value=b"%d" % number)
    async with Reader(bootstrap_servers=servers) as reader:
        reader.assign({TopicPartition("things", 1): 0})
        seen = 0
        while seen < MESSAGES:
            seen += len(await reader.fetch(timeout_ms=10_000))
        assert seen == MESSAGES


async def test_metrics_after_produce_and_fetch(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", ottla_console_listener="127.0.0.1:0") as broker:
        await write_and_read(broker)
        services = broker.services
        assert services is not None
        log = services.logs.get("things", 1)
        assert log is not None
        got = await scrape(broker)
        assert value(got, "ottla_produced_records_total", topic="things") == MESSAGES
        assert value(got, "ottla_produced_bytes_total", topic="things") == log.size_bytes > MESSAGES * 61
        assert value(got, "ottla_fetched_bytes_total", topic="things") >= log.size_bytes
        for name, expected in (
            ("ottla_log_size_bytes", log.size_bytes),
            ("ottla_log_start_offset", 0),
            ("ottla_log_end_offset", MESSAGES),
            ("ottla_high_watermark", MESSAGES),
        ):
            assert value(got, name, topic="things", partition="1") == expected
            assert value(got, name, topic="things", partition="0") == 0
        assert value(got, "ottla_requests_total", api="Produce") == MESSAGES
        assert value(got, "ottla_requests_total", api="CreateTopics") == 1
        assert value(got, "ottla_request_errors_total", api="Produce") == 0
        assert value(got, "ottla_request_bytes_total", api="Produce") > log.size_bytes
        assert value(got, "ottla_response_bytes_total", api="Fetch") > log.size_bytes
        assert value(got, "ottla_response_bytes_total", api="Produce") > MESSAGES * 20
        assert value(got, "ottla_partitions") == 2
        assert value(got, "ottla_leader_partitions") == 2
        assert value(got, "ottla_under_replicated_partitions") == 0
        assert value(got, "ottla_offline_partitions") == 0
        assert value(got, "ottla_controller_active") == 1
        assert value(got, "ottla_controller_epoch") == 1
        assert value(got, "ottla_rejected_frames_total") == 0
        assert value(got, "process_resident_memory_bytes") > 10_000_000
        assert value(got, "process_open_fds") > 3
        (build,) = [dict(labels) for (name, labels) in got if name == "ottla_build_info"]
        assert (build["broker_id"], build["cluster_id"]) == ("0", services.cluster_id)
        # The table has APIs that nobody asked: they are left out.
        assert ("ottla_requests_total", frozenset({("api", "StopReplica")})) not in got


async def test_durations_are_a_cumulative_histogram(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", ottla_console_listener="127.0.0.1:0") as broker:
        await write_and_read(broker)
        produce = broker.metrics.api("Produce")
        got = await scrape(broker)
        bounds = [*LATENCY_BUCKETS_S, float("inf")]
        buckets = {
            float(dict(labels)["le"]): number
            for (name, labels), number in got.items()
            if name == f"{DURATION}_bucket" and dict(labels)["api"] == "Produce"
        }
        assert sorted(buckets) == bounds
        assert [buckets[bound] for bound in bounds] == [
            sum(produce.bucket_counts[: index + 1]) for index in range(len(bounds))
        ]
        assert value(got, f"{DURATION}_count", api="Produce") == MESSAGES
        assert value(got, f"{DURATION}_sum", api="Produce") == pytest.approx(produce.seconds)
        assert produce.seconds > 0


async def test_connections_sessions_and_waiting_requests(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", ottla_console_listener="127.0.0.1:0") as broker:
        services = broker.services
        assert services is not None
        servers = broker.bootstrap_servers
        idle = await scrape(broker)
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_topic("things", 1)
        async with Reader(bootstrap_servers=servers, fetch_max_wait_ms=20_000) as reader:
            reader.assign({TopicPartition("things", 0): 0})
            reading = asyncio.create_task(reader.fetch(timeout_ms=20_000))
            await until(lambda: services.replicas.fetches.size == 1, "the fetch waits")
            got = await scrape(broker)
            sessions = len(services.fetch_sessions)
            reading.cancel()
        assert value(idle, "ottla_delayed_requests", kind="fetch") == 0
        assert value(got, "ottla_delayed_requests", kind="fetch") == 1
        assert value(got, "ottla_delayed_requests", kind="produce") == 0
        assert value(got, "ottla_connections", listener="PLAINTEXT") > value(
            idle, "ottla_connections", listener="PLAINTEXT"
        )
        assert value(got, "ottla_fetch_sessions") == sessions
        assert value(got, "ottla_tasks") > value(idle, "ottla_tasks")


async def test_rejected_frames_are_counted(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", ottla_console_listener="127.0.0.1:0") as broker:
        host, port = broker.bootstrap_servers.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\0\0\0\4\x7f\xff\0\0")  # four bytes are no request header
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert value(await scrape(broker), "ottla_rejected_frames_total") == 1


async def test_unhealthy_partitions_are_counted(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", ottla_console_listener="127.0.0.1:0") as broker:
        services = broker.services
        assert services is not None
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic("things", 3)
        services.replicas.partitions[("things", 1)].replicas = (0, 1)
        for number in (0, 2):
            state = broker.metadata.snapshot.partition("things", number)
            assert state is not None
            state.leader = -1
        got = await scrape(broker)
        assert value(got, "ottla_under_replicated_partitions") == 1
        assert value(got, "ottla_offline_partitions") == 2
        services.is_controller = lambda: False
        got = await scrape(broker)
        assert value(got, "ottla_offline_partitions") == 0
        assert value(got, "ottla_controller_active") == 0


async def test_two_brokers_in_one_process_have_separate_metrics(tmp_path: Path) -> None:
    async with (
        running_broker(tmp_path / "one", ottla_console_listener="127.0.0.1:0") as one,
        running_broker(tmp_path / "two", ottla_console_listener="127.0.0.1:0") as two,
    ):
        await write_and_read(one)
        assert value(await scrape(one), "ottla_partitions") == 2
        got = await scrape(two)
        assert value(got, "ottla_partitions") == 0
        assert not [name for (name, _) in got if name == "ottla_produced_records_total"]


async def test_openmetrics_if_the_scraper_accepts_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", ottla_console_listener="127.0.0.1:0") as broker:
        await write_and_read(broker)
        assert broker.console is not None
        accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{broker.console.port}/metrics", headers={"Accept": accept}) as response,
        ):
            assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            families = {family.name: family for family in parse_openmetrics(await response.text())}
        assert families["ottla_requests"].type == "counter"
        assert families[DURATION].type == "histogram"
        assert {sample.value for sample in families["ottla_produced_records"].samples} == {MESSAGES}


async def test_names_follow_the_conventions_and_are_documented(tmp_path: Path) -> None:
    names = [f"{metric.name}_total" if metric.kind == COUNTER else metric.name for metric in METRICS] + [DURATION]
    assert len(set(names)) == len(names)
    docs = (ROOT / "docs" / "console.md").read_text()
    documented = re.findall(r"^\| `(ottla_\w+)` \|", docs, re.MULTILINE)
    assert sorted(documented) == sorted(names)
    for metric in METRICS:
        row = next(line for line in docs.splitlines() if line.startswith(f"| `{metric.name}"))
        kind, labels = (cell.strip() for cell in row.split("|")[2:4])
        assert kind == metric.kind
        assert labels == ", ".join(f"`{label}`" for label in metric.labels)
    async with running_broker(tmp_path / "data") as broker:
        assert broker.services is not None
        body, _ = await Exposition(broker.services, broker.acceptors, "1").render("", READS_ALL)
    families = {family.name: family for family in parse_text(body.decode())}
    assert {name for name in families if name.startswith("ottla_")} == {
        *(metric.name for metric in METRICS),
        DURATION,
    }
    for metric in METRICS:
        assert families[metric.name].type == metric.kind
