"""Lasting watches out of ZooKeeper's that fire once, against a scripted server: what races decide is decided here."""

import asyncio

import pytest
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from registry.errors import ConnectionLossError, NoAuthError, NoNodeError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.watches import ZooKeeperWatches


class Server:
    """Takes the reads that arm, in their order, and answers when told to."""

    def __init__(self):
        self.reads = []  # (kind, path, watcher, future)
        self.connected = True

    def queue(self, path, send):
        if not self.connected:
            return None
        future = asyncio.get_running_loop().create_future()
        kind, full, watcher = send(self)
        self.reads.append((kind, full, watcher, future))
        return future

    def exists_async(self, path, watch):
        return "exists", path, watch

    def get_children_async(self, path, watch):
        return "children", path, watch

    async def answer(self, result=None):
        """Answer the oldest read."""
        kind, path, watcher, future = self.reads.pop(0)
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
        await settled()
        return kind, path, watcher


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def event(kind=EventType.CHANGED):
    return WatchedEvent(kind, KeeperState.CONNECTED, "/ignored")


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def watches(server):
    return ZooKeeperWatches(ZooKeeperAddress.parse("zk/tree"), server.queue)


async def test_a_read_arms_before_the_callback_runs(server, watches):
    order = []
    watches.add_data("/a", lambda: order.append(len(server.reads)))
    kind, path, watcher = await server.answer()
    assert (kind, path) == ("exists", "/tree/a")
    watcher(event())
    assert [read[:2] for read in server.reads] == [("exists", "/tree/a")]  # armed again already
    assert order == []
    await settled()
    assert order == [1]


async def test_one_read_for_several_watches_of_a_path(server, watches, calls):
    called = [calls() for _ in range(4)]
    for one in called[:2]:
        watches.add_data("/a", one)
    for one in called[2:]:
        watches.add_children("/a", one)
    assert [read[0] for read in server.reads] == ["exists", "children"]
    _, _, data = await server.answer()
    _, _, children = await server.answer([])
    data(event())
    children(event(EventType.CHILD))
    await settled()
    assert [one.count for one in called] == [1, 1, 1, 1]
    assert [read[0] for read in server.reads] == ["exists", "children"]
    assert [read[2] for read in server.reads] == [data, children]  # kazoo keeps a set: the same watcher is there once


async def test_a_cancelled_watch_is_not_armed_again(server, watches, calls):
    called = calls()
    handles = [watches.add_data("/a", called), watches.add_children("/a", called)]
    armed = [await server.answer(), await server.answer([])]
    for handle in handles:
        handle.cancel()
    for _, _, watcher in armed:
        watcher(event(EventType.DELETED))
    await settled()
    assert (server.reads, called.count) == ([], 0)
    watches.add_data("/a", called)  # and may be registered again
    assert len(server.reads) == 1


async def test_children_of_a_node_created_between_the_two_reads(server, watches, calls):
    called = calls()
    watches.add_children("/a", called)
    assert (await server.answer(NoNodeError("none", "/a")))[0] == "children"
    assert (await server.answer("a stat"))[0] == "exists"
    await called.wait()
    assert [read[0] for read in server.reads] == ["children"]


async def test_children_of_a_node_created_later(server, watches, calls):
    called = calls()
    watches.add_children("/a", called)
    await server.answer(NoNodeError("none", "/a"))
    _, _, watcher = await server.answer(None)
    await settled()
    assert (called.count, server.reads) == (0, [])
    watcher(event(EventType.CREATED))
    await called.wait()
    assert [read[0] for read in server.reads] == ["children"]


async def test_children_without_read_permission(server, watches, calls, caplog):
    """What is left is the node itself; and nothing is asked over and over again."""
    called = calls()
    watches.add_children("/a", called)
    await server.answer(NoAuthError("no", "/a"))
    assert (await server.answer("a stat"))[0] == "exists"
    await settled()
    assert (called.count, server.reads) == (0, [])
    assert "/a: changes of its children are not noticed" in caplog.text


@pytest.mark.parametrize("add", ["add_data", "add_children"])
async def test_a_failed_read_is_retried(server, watches, calls, add):
    """An overloaded server, say: the connection stays, so nobody else arms again."""
    called = calls()
    getattr(watches, add)("/a", called)
    await server.answer(ConnectionLossError("throttled", "/a"))
    await called.wait()
    assert len(server.reads) == 1


async def test_a_lost_connection_disarms(server, watches, calls):
    data, children = calls(), calls()
    watches.add_data("/a", data)
    watches.add_children("/a", children)
    _, _, watcher = await server.answer()
    server.connected = False
    watches.disarm_all()
    lost = server.reads.pop()[3]
    lost.set_exception(ConnectionLossError("lost", "/a"))
    watcher(event(EventType.NONE))  # kazoo tells its watchers of the connection too
    await settled()
    assert (data.count, children.count) == (0, 0)
    watches.add_data("/b", data)
    assert server.reads == []
    server.connected = True
    watches.arm_all()
    assert [read[:2] for read in server.reads] == [
        ("exists", "/tree/a"),
        ("exists", "/tree/b"),
        ("children", "/tree/a"),
    ]
    assert server.reads[0][2] is watcher
    watches.arm_all()
    assert len(server.reads) == 3
