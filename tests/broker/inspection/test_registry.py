"""The registry tree as the console shows it: both the embedded registry and ZooKeeper."""

import pytest
import pytest_asyncio

from broker.inspection import registry as inspected
from broker.inspection.registry import RegistryTree
from console.inspection.errors import BusyError, ClosedToBrokerError, InspectionError
from registry.embedded.store import EmbeddedStore
from registry.interface import Acl, Permission
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from support.polling import until
from support.reader_rights import SeesAllBut
from support.zookeeper import new_chroot, shared_zookeeper

ALL = SeesAllBut()


@pytest_asyncio.fixture(params=["embedded", "zookeeper"])
async def registry(request, tmp_path):
    store = None
    if request.param == "embedded":
        store = await EmbeddedStore.open(tmp_path / "registry.sqlite", now_ms=lambda: 1_700_000_000_000)
        found = store.session(18_000)
    else:
        found = ZooKeeperRegistry(ZooKeeperAddress.parse(f"{shared_zookeeper().connect}{new_chroot()}"))
    await found.start()
    await found.create("/brokers/ids/7", b'{"host":"h"}', ephemeral=True, make_parents=True)
    await found.create("/controller", b'{"version":1,"brokerid":7}', ephemeral=True)
    for topic in ("a", "b", "hidden"):
        await found.create(f"/brokers/topics/{topic}", b"{}", make_parents=True)
    yield found
    await found.close()
    if store is not None:
        await store.close()


async def test_a_node_is_described(registry):
    node = await RegistryTree(registry).node("/controller", ALL, "")
    assert node.meaning.startswith("The active controller")
    assert node.content == '{\n  "version": 1,\n  "brokerid": 7\n}'
    assert (node.version, node.children, node.children_found) == (0, [], 0)
    assert node.owner_broker == 7
    assert node.ephemeral_owner == f"0x{registry.session_id & (1 << 64) - 1:x}"
    assert node.czxid == node.mzxid
    assert [one.model_dump() for one in node.acl] == [
        {"permissions": ["read", "write", "create", "delete", "admin"], "scheme": "world", "id": "anyone"}
    ]
    assert node.created_ms > 0


async def test_children_are_those_that_the_reader_sees(registry, monkeypatch):
    tree = RegistryTree(registry)
    node = await tree.node("/brokers/topics", SeesAllBut("hidden"), "")
    assert [(one.name, one.path) for one in node.children] == [("a", "/brokers/topics/a"), ("b", "/brokers/topics/b")]
    assert await tree.node("/brokers/topics/hidden", SeesAllBut("hidden"), "") is None
    assert [one.name for one in (await tree.node("/brokers/topics", ALL, "idd")).children] == ["hidden"]
    monkeypatch.setattr(inspected, "MAX_CHILDREN", 2)
    node = await tree.node("/brokers/topics", ALL, "")
    assert (len(node.children), node.children_found) == (2, 3)
    (ids,) = (await tree.node("/brokers/ids", ALL, "")).children
    assert (ids.is_ephemeral, ids.children) == (True, 0)


async def test_a_node_that_does_not_exist_and_one_that_cannot(registry):
    tree = RegistryTree(registry)
    assert await tree.node("/brokers/none", ALL, "") is None
    with pytest.raises(InspectionError, match="is not a path"):
        await tree.node("/brokers//ids", ALL, "")


async def test_a_node_that_this_broker_may_not_read(registry):
    await registry.create("/admin", b"{}", acl=[Acl(Permission.ALL, "digest", "alice:hash")])
    with pytest.raises(ClosedToBrokerError, match="ACL of /admin"):
        await RegistryTree(registry).node("/admin", ALL, "")
    assert "admin" in [one.name for one in (await RegistryTree(registry).node("/", ALL, "")).children]


async def test_changes_are_told_until_the_reader_leaves(registry):
    tree = RegistryTree(registry)
    changed = set()
    watch = tree.watch(["/controller", "/brokers/topics", "/brokers/topics/hidden"], SeesAllBut("hidden"), changed.add)
    await registry.set("/brokers/topics/hidden", b"1")
    await registry.set("/controller", b"{}")
    await until(lambda: "/controller" in changed, "the change of the data is told")
    await registry.create("/brokers/topics/c")
    await until(lambda: "/brokers/topics" in changed, "the new child is told")
    assert "/brokers/topics/hidden" not in changed
    watch.close()
    watch.close()
    changed.clear()
    await registry.set("/controller", b"{}")
    await registry.get("/controller")
    assert changed == set()


async def test_watches_are_limited(registry, monkeypatch):
    monkeypatch.setattr(inspected, "MAX_WATCHED", 2)
    tree = RegistryTree(registry)
    watch = tree.watch(["/a", "/b"], ALL, print)
    with pytest.raises(BusyError):
        tree.watch(["/c"], ALL, print)
    watch.close()
    tree.watch(["/c"], ALL, print).close()
    with pytest.raises(InspectionError):
        tree.watch(["//"], ALL, print)
    tree.watch(["/a", "/b"], ALL, print).close()


async def test_a_registry_that_does_not_answer(registry):
    await registry.close()
    with pytest.raises(BusyError, match="does not answer"):
        await RegistryTree(registry).node("/controller", ALL, "")
