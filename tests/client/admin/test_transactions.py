"""Producers that the admin client fences: their transactions are aborted at the coordinator."""

import pytest

from client.admin.admin import Admin
from client.consumer.offsets import LATEST
from client.errors import ConcurrentTransactionsError, InvalidRequestError, ProducerFencedError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from ottla import testing
from support.deadlines import DEADLINE_MS

PARTITION = TopicPartition("orders", 0)


@pytest.mark.parametrize("version", [None, "0.11"])
async def test_a_fenced_producer_loses_its_open_transaction(version):
    with testing.broker({"num.partitions": "1"}, version=version) as broker:
        servers = broker.bootstrap_servers
        async with (
            Admin(bootstrap_servers=servers, default_api_timeout_ms=DEADLINE_MS) as admin,
            Producer(bootstrap_servers=servers, transactional_id="billing") as producer,
        ):
            await producer.begin_transaction()
            await producer.send("orders", b"first", partition=0)
            await producer.flush()
            assert (await admin.list_offsets({PARTITION: LATEST}, read_committed=True))[PARTITION].offset == 0
            found = (await admin.fence_producers(["billing"]))["billing"]
            assert found.producer_epoch > 0
            assert (await admin.list_offsets({PARTITION: LATEST}, read_committed=True))[PARTITION].offset == 2
            with pytest.raises(ProducerFencedError, match="billing"):
                await producer.commit_transaction()
            assert (await admin.list_offsets({PARTITION: LATEST}, read_committed=True))[PARTITION].offset == 2


async def test_each_id_has_its_result_and_an_unknown_one_is_created():
    with testing.broker() as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            found = await admin.fence_producers(["new", ""])
            assert found["new"].producer_epoch == 0
            assert isinstance(found[""], InvalidRequestError)
            assert [one.transactional_id for one in await admin.list_transactions()] == ["new"]
            again = await admin.fence_producers(["new"])
            assert again["new"] == found["new"]._replace(producer_epoch=1)


async def test_an_abort_that_cannot_be_completed_is_reported():
    with testing.cluster(
        2, {"transaction.state.log.replication.factor": "1", "transaction.state.log.num.partitions": "1"}
    ) as cluster:
        servers = cluster.bootstrap_servers
        async with (
            Admin(bootstrap_servers=servers) as admin,
            Producer(bootstrap_servers=servers, transactional_id="billing") as producer,
        ):
            await producer.begin_transaction()
            (coordinator,) = (one.coordinator for one in await admin.list_transactions())
            (other,) = set(cluster.brokers) - {coordinator}
            await admin.create_topic("orders", assignment={0: [other]})
            await producer.send("orders", b"first", partition=0)
            await producer.flush()
            cluster.kill_broker(other)
            async with Admin(
                bootstrap_servers=cluster.brokers[coordinator].bootstrap_servers, default_api_timeout_ms=2000
            ) as impatient:
                with pytest.raises(ConcurrentTransactionsError, match="billing"):
                    await impatient.fence_producers(["billing"])
                assert (await impatient.describe_transaction("billing")).state == "PrepareAbort"
