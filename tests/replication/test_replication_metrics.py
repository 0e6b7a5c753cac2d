"""What the console tells of replication: of a leader and its follower, and when the follower is cut off."""

from broker.console.metrics import METRICS, Source
from protocol.messages.delete_topics import DeleteTopicsRequest
from support.deadlines import DEADLINE_MS
from support.pair import pair
from support.polling import until
from support.wire import append, batch, fetch, wire_client


def read(broker, name):
    """A metric's readings by label values."""
    metric = next(one for one in METRICS if one.name == name)
    return dict(metric.read(Source(broker.services, broker.acceptors, "0")))


async def test_metrics_of_a_leader_and_its_follower(tmp_path):
    lag = {"replica_lag_time_max_ms": "600", "replica_fetch_wait_max_ms": "50"}
    async with pair(tmp_path, topic={"min.insync.replicas": "2"}, **lag) as (leader, follower):
        async with wire_client(leader.bootstrap_servers) as client:
            assert (await append(client, "t", batch(b"v"))).error_code == 0
        size = leader.services.logs.get("t", 0).size_bytes
        assert read(leader, "ottla_replicated_bytes_out")["t",] >= size  # to both tasks of the fetcher
        assert read(follower, "ottla_replicated_bytes_in") == {("t",): size}
        assert read(leader, "ottla_fetched_bytes") == {("t",): 0}
        await until(lambda: read(follower, "ottla_replica_lag") == {("t", "0"): 0}, "there is no lag")
        for name in ("under_replicated_partitions", "under_min_isr_partitions", "isr_shrinks", "failed_isr_updates"):
            assert read(leader, f"ottla_{name}") == {(): 0}, name
        fetchers = follower.services.replicas.fetchers
        partition = follower.services.replicas.partitions["t", 0]
        await fetchers.remove([("t", 0)])
        leader.services.replicas.partitions["t", 0].log.append_as_leader(batch(b"w"), 0)  # or it would count as there
        await until(lambda: read(leader, "ottla_isr_shrinks") == {(): 1}, "the follower is out")
        assert read(leader, "ottla_under_replicated_partitions") == {(): 1}
        assert read(leader, "ottla_under_min_isr_partitions") == {(): 1}
        fetchers.add(partition)
        await until(lambda: read(leader, "ottla_isr_expands") == {(): 1}, "and in again")
        assert read(leader, "ottla_under_min_isr_partitions") == {(): 0}
        fetchers.failed.add(("t", 0))
        assert read(follower, "ottla_failed_replicas") == {(): 1}


async def test_a_deleted_topic_has_no_metrics(tmp_path):
    async with pair(tmp_path) as brokers:
        async with wire_client(brokers[0].bootstrap_servers) as client:
            assert (await append(client, "t", batch(b"v"), acks=-1)).error_code == 0
            assert (await client.call(fetch("t", 0), 12)).responses[0].partitions[0].records
            names = (
                "produced_records",
                "produced_bytes",
                "fetched_bytes",
                "replicated_bytes_in",
                "replicated_bytes_out",
            )
            counted = {name for name in names for one in brokers if read(one, f"ottla_{name}").get(("t",))}
            assert counted == set(names)
            deletion = DeleteTopicsRequest(topic_names=["t"], timeout_ms=DEADLINE_MS)
            assert (await client.call(deletion, 3)).responses[0].error_code == 0
        for one in brokers:
            assert [read(one, f"ottla_{name}") for name in names] == [{}] * len(names)
