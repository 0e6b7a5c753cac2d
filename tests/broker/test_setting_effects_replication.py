"""What the settings of replication do: two brokers in this process, one of which follows the other."""

import random
import socket

import pytest

from broker.apis.fetch import FetchHandler
from broker.cluster.metadata_cache import MetadataCache
from broker.replicas import ReplicaParts
from broker.settings.config import BrokerConfig
from client.admin.admin import Admin
from client.admin.types import ResourceType
from client.errors import RequestTimeoutError
from client.wire.connection_security import UNSECURED
from client.wire.network import AsyncioNetwork
from client.wire.setup_timeouts import SetupTimeouts
from protocol.host_port import HostPort
from protocol.messages.fetch import FetchRequest, FetchResponse
from registry.znodes.topics import PartitionStateZnode
from replication.follower_progress import NEVER
from replication.in_sync_replicas import InSyncReplicas
from replication.partition import Partition
from support.effects import shows
from support.live import BROKER_RESOURCE
from support.pair import pair, states
from support.polling import until
from support.wire import append, batch, fetch, wire_client


@pytest.fixture
def asked(monkeypatch):
    """(request, version) of every follower's Fetch."""
    seen = []
    handle = FetchHandler.handle

    def noted(self, request, context):
        if max(request.replica_id, request.replica_state.replica_id) >= 0:
            seen.append((request, context.api_version))
        return handle(self, request, context)

    monkeypatch.setattr(FetchHandler, "handle", noted)
    return seen


async def replicate(brokers, *values):
    async with wire_client(brokers[0].bootstrap_servers) as client:
        answer = await append(client, "t", batch(*values))
        assert answer.error_code == 0


def parts(config_text, now_s=lambda: 0.0):
    """The replica manager of a broker that has these settings, without the rest of it."""
    config = BrokerConfig(config_text, has_file=False)
    made = ReplicaParts(
        1,
        config,
        metadata=MetadataCache(),
        network=AsyncioNetwork(),
        security=UNSECURED,
        setup=SetupTimeouts(),
        registry=None,
        broker_epoch=lambda: 1,
        now_s=now_s,
        rng=random.Random(1),
    )
    return made, config


@shows(
    "replica.fetch.wait.max.ms",
    "replica.fetch.min.bytes",
    "replica.fetch.max.bytes",
    "replica.fetch.response.max.bytes",
    "inter.broker.protocol.version",
)
@pytest.mark.parametrize(("version", "fetch_version"), [("3.9", 17), ("3.0", 12), ("2.3", 11)])
async def test_limits_in_fetch_requests_of_followers(tmp_path, asked, version, fetch_version):
    overrides = {
        "replica_fetch_wait_max_ms": "77",
        "replica_fetch_min_bytes": "3",
        "replica_fetch_max_bytes": "1500",
        "replica_fetch_response_max_bytes": "2500",
        "inter_broker_protocol_version": version,
    }
    async with pair(tmp_path, **overrides) as brokers:
        await replicate(brokers, b"v")
        await until(lambda: any(request.max_wait_ms == 77 for request, _ in asked), "a long poll")
        request, asked_version = next(each for each in asked if each[0].topics and each[0].max_wait_ms == 77)
        assert asked_version == fetch_version
        assert (request.min_bytes, request.max_bytes) == (3, 2500)
        assert request.topics[0].partitions[0].partition_max_bytes == 1500


@shows("num.replica.fetchers")
async def test_number_of_fetchers(tmp_path):
    async with pair(tmp_path, partitions=4, num_replica_fetchers="2") as brokers:
        fetchers = brokers[1].services.replicas.fetchers
        assert {leader for leader, _ in fetchers.fetchers} == {0}
        assert len(fetchers.fetchers) == 2
        async with Admin(bootstrap_servers=brokers[0].bootstrap_servers) as admin:
            await admin.alter_configs(BROKER_RESOURCE, "1", {"num.replica.fetchers": "4"})
        await until(lambda: len(fetchers.fetchers) == 4, "it changes while the broker runs")
        assert len(states(brokers[1])) == 4
        await replicate(brokers, b"v")


@shows("replica.fetch.backoff.ms")
async def test_fetch_backoff_of_a_follower(tmp_path, monkeypatch):
    async with pair(tmp_path, replica_fetch_backoff_ms="300") as brokers:
        (fetcher,) = brokers[1].services.replicas.fetchers.fetchers.values()
        (state,) = fetcher.states.values()
        pauses_s = []
        with monkeypatch.context() as stopped_clock:
            stopped_clock.setattr(fetcher, "_now_s", lambda: 0.0)
            for _ in range(6):
                fetcher._delay(state)
                pauses_s.append(state.delayed_until_s)
        assert pauses_s == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.3, 0.3], rel=0.2)


@shows("replica.socket.timeout.ms")
async def test_a_leader_that_does_not_answer(tmp_path):
    silent = socket.create_server(("127.0.0.1", 0))  # the kernel accepts, and nobody reads
    made, _ = parts({"replica.socket.timeout.ms": "50", "replica.fetch.wait.max.ms": "10"})
    connection = made._connection("silent", lambda: 0, "test", False)
    connection._address = lambda: HostPort(*silent.getsockname())
    with pytest.raises(RequestTimeoutError):
        await connection.call(FetchRequest(), FetchResponse, 12)
    connection.close()
    silent.close()


@shows("replica.lag.time.max.ms", "replica.lag.max.messages")
@pytest.mark.parametrize(
    ("text", "after_s", "behind", "leaves"),
    [
        ({"replica.lag.time.max.ms": "2000"}, 2.0, 1, False),
        ({"replica.lag.time.max.ms": "2000"}, 2.001, 1, True),
        ({"replica.lag.time.max.ms": "2000"}, 2.001, 0, False),
        ({}, 0.1, 1000, False),
        ({"replica.lag.max.messages": "10"}, 0.1, 10, False),
        ({"replica.lag.max.messages": "10"}, 0.1, 11, True),
    ],
)
async def test_when_a_follower_is_out_of_sync(tmp_path, text, after_s, behind, leaves):
    now = [100.0]
    made, _ = parts(text, lambda: now[0])
    rules = made.manager(_Logs(), None).rules
    sync = InSyncReplicas(1, [1, 2], [1, 2], rules)
    sync.fetched(2, 5000 - behind, 0, 5000 - behind, 1)
    now[0] += after_s
    assert sync.out_of_sync(5000) == ([2] if leaves else [])
    assert sync.progress[2].last_caught_up_ms > NEVER


class _Logs:
    """What a manager needs to be made."""

    class dirs:  # noqa: N801
        on_room = None


@shows("replication.quota.window.num", "replication.quota.window.size.seconds")
def test_windows_of_quotas():
    now = [100.0]
    made, _ = parts({"replication.quota.window.num": "3", "replication.quota.window.size.seconds": "2"}, lambda: now[0])
    quota = made._quota(lambda: 10, lambda topic: ("*",))
    quota.record(50)
    assert quota.is_exceeded  # in one sample of two seconds
    now[0] += 5.5
    assert not quota.is_exceeded
    quota.record(30)
    assert quota.is_exceeded  # the first sample still counts
    now[0] += 0.6
    assert quota.is_exceeded  # 30 bytes in one sample of two seconds
    now[0] += 3
    assert not quota.is_exceeded
    now[0] += 6
    assert not quota.is_exceeded


@shows("unclean.leader.election.enable")
@pytest.mark.parametrize("where", ["topic", "cluster"])
async def test_unclean_leader_election(tmp_path, where):
    async with pair(tmp_path) as brokers:
        path = PartitionStateZnode.path("t", 0)
        registry = brokers[0]._store.session()
        await registry.start()
        await registry.set(path, PartitionStateZnode(leader=0, leader_epoch=0, isr=[0], controller_epoch=1).encode())
        await registry.close()
        brokers[0].stop()
        await until(lambda: brokers[1].metadata.snapshot.partition("t", 0).leader == -1, "nobody leads")
        async with Admin(bootstrap_servers=brokers[1].bootstrap_servers) as admin:
            resource = (ResourceType.TOPIC, "t") if where == "topic" else (ResourceType.BROKER, "")
            await admin.alter_configs(*resource, {"unclean.leader.election.enable": "true"})
            await until(lambda: brokers[1].metadata.snapshot.partition("t", 0).leader == 1, "broker 1 leads")


@shows("replica.selector.class")
@pytest.mark.parametrize(
    ("selector", "preferred"), [("RackAwareReplicaSelector", 1), ("LeaderSelector", -1), (None, -1)]
)
async def test_the_preferred_read_replica(tmp_path, selector, preferred):
    overrides = {} if selector is None else {"replica_selector_class": f"org.apache.kafka.common.replica.{selector}"}
    async with pair(tmp_path, **overrides) as brokers:
        await replicate(brokers, b"v")
        async with wire_client(brokers[0].bootstrap_servers) as client:
            answer = await client.call(fetch("t", rack_id="rack-1"), 11)
            partition = answer.responses[0].partitions[0]
            assert partition.preferred_read_replica == preferred
            assert bool(partition.records) is (preferred < 0)
        async with wire_client(brokers[1].bootstrap_servers) as client:
            # A follower hears of the high watermark a moment later.
            answer = await client.call(fetch("t", rack_id="rack-1", max_wait_ms=20_000, min_bytes=1), 11)
            assert answer.responses[0].partitions[0].records


@shows("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
def test_throttled_replicas():
    made, config = parts({})
    partition = Partition("t", 3)
    quota = made._quota(lambda: 10, lambda topic: topic.leader_replication_throttled_replicas)
    for text, applies in (("", False), ("*", True), ("3:1", True), ("3:2,2:1", False)):
        partition.log = type("Log", (), {"config": config.log_config({"leader.replication.throttled.replicas": text})})
        assert quota.applies_to(partition) is applies


async def test_a_leader_sends_nothing_above_its_rate_to_a_throttled_follower_that_is_out_of_sync(tmp_path):
    options = {"replica_lag_time_max_ms": "600", "replica_fetch_wait_max_ms": "50"}
    topic = {"leader.replication.throttled.replicas": "*"}
    async with (
        pair(tmp_path, topic=topic, **options) as (leader, follower),
        Admin(bootstrap_servers=leader.bootstrap_servers) as admin,
    ):

        async def allow(rate):
            setting = {"leader.replication.throttled.rate": str(rate)}
            await admin.alter_configs(ResourceType.BROKER, "0", setting)
            await until(lambda: quota._rate() == rate, "the rate holds")

        partition, quota = leader.services.replicas.partitions["t", 0], leader.services.replicas.leader_quota
        fetchers, copy = follower.services.replicas.fetchers, follower.services.logs.get("t", 0)
        await fetchers.remove([("t", 0)])
        partition.log.append_as_leader(batch(bytes(1000)), 0)
        await until(lambda: 1 not in partition.isr, "the follower is out of sync")
        await allow(1)
        quota.record(100_000)
        fetched = leader.metrics.api("Fetch").requests
        fetchers.add(follower.services.replicas.partitions["t", 0])
        await until(lambda: leader.metrics.api("Fetch").requests > fetched + 3, "the follower has asked")
        assert copy.log_end_offset == 0
        await allow(10**9)
        await until(lambda: copy.log_end_offset == 1, "it is sent")
        assert sum(size for _, size in quota._samples) > 101_000
