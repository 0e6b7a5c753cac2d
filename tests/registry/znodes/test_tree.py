"""The persistent paths, on every backend."""

import asyncio

from registry.znodes.tree import PERSISTENT_PATHS, ensure_persistent_paths, znode_class

KAFKA_ORDER = [
    "/consumers",
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/config",
    "/config/changes",
    "/admin",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
]


async def test_persistent_paths(registry, other):
    await registry.create("/brokers/topics", b"kept", make_parents=True)
    await asyncio.gather(ensure_persistent_paths(registry), ensure_persistent_paths(other))
    for path in PERSISTENT_PATHS:
        assert (await registry.get(path))[1].ephemeral_owner == 0
    assert (await registry.get("/brokers/topics"))[0] == b"kept"
    assert (await registry.get("/config"))[0] is None


async def test_persistent_paths_are_created_in_order(registry):
    await ensure_persistent_paths(registry)
    zxids = {path: (await registry.exists(path)).czxid for path in KAFKA_ORDER}
    assert sorted(zxids, key=zxids.__getitem__) == KAFKA_ORDER
    assert len(set(zxids.values())) == len(KAFKA_ORDER)


def test_paths_that_are_not_kafkas_have_no_class():
    for path in ("/zookeeper", "/brokers/ids/1/x", "/nothing", "/config/changes/config_change_1/x"):
        assert znode_class(path) is None
