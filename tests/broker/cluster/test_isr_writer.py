"""ISRs as leaders write them below inter.broker.protocol.version 2.7: on condition, and the controller is told."""

import asyncio

import pytest

from broker.cluster import isr_writer
from broker.cluster.isr_writer import IsrWriter
from protocol.error_codes import ErrorCode
from registry.embedded.store import EmbeddedStore
from registry.errors import SessionExpiredError
from registry.znodes.notifications import IsrChangeNotificationZnode
from registry.znodes.topics import PartitionStateZnode
from registry.znodes.tree import ensure_persistent_paths
from replication.alter_partition import IsrChange, IsrChangeRefusedError, LeaderAndIsr
from support.polling import until

PATH = PartitionStateZnode.path("t", 3)


@pytest.fixture
async def registry():
    store = await EmbeddedStore.open()
    made = store.session()
    await made.start()
    await ensure_persistent_paths(made)
    state = PartitionStateZnode(leader=1, leader_epoch=5, isr=[1, 2, 3], controller_epoch=4)
    await made.create(PATH, state.encode(), make_parents=True)
    yield made
    await made.close()
    await store.close()


def change(isr, partition_epoch=0, partition=3):
    return IsrChange("t", b"1" * 16, partition, LeaderAndIsr(1, 5, isr, partition_epoch, (-1,) * len(isr)), 4)


async def test_the_state_is_written_with_its_expected_version(registry):
    writer = IsrWriter(registry, now_s=lambda: 0.0)
    decided = await writer.submit(change((1, 2)))
    assert (decided.isr, decided.partition_epoch) == ((1, 2), 1)
    data, stat = await registry.get(PATH)
    assert PartitionStateZnode.decode(data, PATH) == PartitionStateZnode(
        leader=1, leader_epoch=5, isr=[1, 2], controller_epoch=4
    )
    assert stat.version == 1
    again = await writer.submit(change((1, 2)))  # the answer to the first was lost
    assert again.partition_epoch == 1
    with pytest.raises(IsrChangeRefusedError) as refused:
        await writer.submit(change((1,)))
    assert refused.value.code == ErrorCode.INVALID_UPDATE_VERSION
    assert (await registry.get(PATH))[0] == data
    with pytest.raises(IsrChangeRefusedError) as refused:
        await writer.submit(change((1,), partition=4))
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_controller_is_notified_after_a_quiet_period(registry, monkeypatch):
    monkeypatch.setattr(isr_writer, "CHECK_INTERVAL_S", 0.001)
    now = [100.0]
    writer = IsrWriter(registry, now_s=lambda: now[0])
    running = asyncio.create_task(writer.run())
    await writer.submit(change((1, 2)))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert await registry.children("/isr_change_notification") == []
    now[0] += 5.1
    told = asyncio.Event()
    watch = registry.watch_children("/isr_change_notification", told.set)
    await told.wait()
    watch.cancel()
    (name,) = await registry.children("/isr_change_notification")
    assert name == "isr_change_0000000000"
    path = f"/isr_change_notification/{name}"
    data, _ = await registry.get(path)
    assert data == b'{"version":1,"partitions":[{"topic":"t","partition":3}]}'
    assert IsrChangeNotificationZnode.decode(data, path).partitions == [("t", 3)]
    now[0] += 100
    await asyncio.sleep(0.01)
    assert len(await registry.children("/isr_change_notification")) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_change_without_a_session_is_retried_and_the_controller_is_notified_in_the_next_session(
    registry, monkeypatch
):
    monkeypatch.setattr(isr_writer, "CHECK_INTERVAL_S", 0.001)
    now = [100.0]
    writer = IsrWriter(registry, now_s=lambda: now[0])
    await writer.submit(change((1, 2)))
    await registry.expire()
    with pytest.raises(IsrChangeRefusedError) as refused:
        await writer.submit(change((1,), partition_epoch=1))
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    now[0] += 100
    with pytest.raises(SessionExpiredError):
        await writer._notify()
    running = asyncio.create_task(writer.run())
    await asyncio.sleep(0.01)
    await registry.start()
    tree, path = registry._store.tree, "/isr_change_notification"
    await until(lambda: tree.children(path), "the controller is told")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_damaged_state_refuses_the_change(registry):
    await registry.set(PATH, b"[]", 0)
    with pytest.raises(IsrChangeRefusedError) as refused:
        await IsrWriter(registry, now_s=lambda: 0.0).submit(change((1, 2)))
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
