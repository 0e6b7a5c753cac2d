"""The registry's contract: watches, states of the connection, expiry. Runs against every backend.

Watches may fire without a change, so nothing here asserts that one did not (but for cancelled ones).
"""

import asyncio

import pytest

from registry.errors import RegistryClosedError, SessionExpiredError
from registry.interface import ConnectionState, Create, Delete, Set
from support.deadlines import DEADLINE_S

CONNECTED, SUSPENDED, EXPIRED = ConnectionState.CONNECTED, ConnectionState.SUSPENDED, ConnectionState.EXPIRED


async def test_data_watch(registry, other, calls):
    called = calls()
    registry.watch_data("/a", called)
    assert await registry.exists("/a") is None  # a watch counts from the first read after it
    seen = []
    for change in (
        lambda: other.create("/a", b"1"),
        lambda: other.set("/a", b"2"),
        lambda: registry.set("/a", b"3"),  # one's own changes count as well
        lambda: other.delete("/a"),
        lambda: other.create("/a", b"4"),
    ):
        await change()
        await called.wait()
        seen.append((await registry.get("/a"))[0] if await registry.exists("/a") else "gone")
    assert seen == [b"1", b"2", b"3", "gone", b"4"]


async def test_child_watch(registry, other, calls):
    called = calls()
    registry.watch_children("/a", called)
    assert await registry.exists("/a") is None
    seen = []
    for change in (
        lambda: other.create("/a"),
        lambda: other.create("/a/x"),
        lambda: other.multi([Create("/a/y"), Create("/a/z")]),
        lambda: other.delete("/a/x"),
        lambda: other.create("/a/n", sequence=True),
    ):
        await change()
        await called.wait()
        seen.append(sorted(await registry.children("/a")))
    assert seen == [[], ["x"], ["x", "y", "z"], ["y", "z"], ["n0000000003", "y", "z"]]


async def test_one_child_in_place_of_another(registry, other, calls):
    await other.create("/a/x", make_parents=True)
    called = calls()
    registry.watch_children("/a", called)
    assert await registry.children("/a") == ["x"]
    await other.multi([Delete("/a/x"), Create("/a/y")])
    await called.wait()
    assert await registry.children("/a") == ["y"]


async def test_watch_of_a_deleted_node_with_children(registry, other, calls):
    await other.create("/a")
    called = calls()
    registry.watch_children("/a", called)
    assert await registry.children("/a") == []
    await other.delete("/a")
    await called.wait()
    assert await registry.exists("/a") is None
    await other.multi([Create("/a"), Create("/a/b")])
    await called.wait()
    assert await registry.children("/a") == ["b"]


async def test_many_changes_end_with_the_last_state_seen(registry, other):
    """The way watches are meant to be used: look again until there is nothing new."""
    seen, done = [], asyncio.Event()
    wake = asyncio.Event()
    registry.watch_data("/n", wake.set)

    async def follow():
        while not done.is_set():
            wake.clear()
            if await registry.exists("/n"):
                seen.append(int((await registry.get("/n"))[0]))
                if seen[-1] == 100:
                    return
            async with asyncio.timeout(DEADLINE_S):
                await wake.wait()

    async def change():
        await other.create("/n", b"0")
        for i in range(1, 101):
            await other.set("/n", b"%d" % i)

    await asyncio.gather(follow(), change())
    assert seen == sorted(seen)


async def test_a_cancelled_watch_is_called_no_more(registry, other, calls):
    cancelled, kept = calls(), calls()
    handle = registry.watch_data("/a", cancelled)
    registry.watch_data("/a", kept)
    assert await registry.exists("/a") is None
    await other.create("/a")
    await kept.wait()
    assert await registry.exists("/a") is not None
    handle.cancel()
    handle.cancel()
    count = cancelled.count
    await other.set("/a", b"")
    await kept.wait()
    assert cancelled.count == count


async def test_the_removal_of_ephemerals_fires_watches(registry_backend, registry, calls):
    for end in (lambda session: session.close(), registry_backend.expire):
        session = await registry_backend.connect()
        await session.create("/e", b"", ephemeral=True)
        data, children = calls(), calls()
        watches = [registry.watch_data("/e", data), registry.watch_children("/", children)]
        assert await registry.exists("/e") is not None
        await end(session)
        await asyncio.gather(data.wait(), children.wait())
        assert await registry.exists("/e") is None
        for watch in watches:
            watch.cancel()


async def test_states_and_sessions(registry_backend, calls, eventually):
    registry = await registry_backend.session()
    assert registry.session_id == 0
    with pytest.raises(RegistryClosedError):
        await registry.get("/")
    states, changed = [], calls()
    registry.listen(states.append)
    listener = registry.listen(changed)
    await registry.start()
    await registry.start()  # nothing to do
    await changed.wait()
    assert (registry.state, states) == (CONNECTED, [CONNECTED])
    listener.cancel()
    first = registry.session_id
    await registry_backend.expire(registry)
    await registry.start()
    assert registry.session_id not in (0, first)

    async def heard():
        return [state for state in states if state is not SUSPENDED] == [CONNECTED, EXPIRED, CONNECTED]

    await eventually(heard)
    assert changed.count == 1
    await registry.close()
    await registry.close()
    for call in (registry.get("/"), registry.create("/a"), registry.start()):
        with pytest.raises(RegistryClosedError):
            await call


async def test_expiry(registry_backend, registry, other, calls):
    expired = calls()
    registry.listen(lambda state: expired() if state is EXPIRED else None)
    await registry.create("/e", ephemeral=True)
    await registry.create("/p")
    called = calls()
    registry.watch_data("/p", called)
    assert await registry.exists("/p") is not None
    await registry_backend.expire(registry)
    await expired.wait()
    assert registry.state is EXPIRED
    assert await other.exists("/e") is None
    for call in (
        registry.get("/p"),
        registry.exists("/p"),
        registry.children("/p"),
        registry.set("/p", b"late"),
        registry.create("/late", ephemeral=True),
        registry.multi([Set("/p", b"late")]),
    ):
        with pytest.raises(SessionExpiredError):
            await call
    await other.set("/p", b"missed")
    await registry.start()
    await called.wait()  # the watch has outlived the session, and says so
    assert (await registry.get("/p"))[0] == b"missed"
    await other.set("/p", b"seen")
    await called.wait()
    await registry.create("/e", ephemeral=True)
    assert (await other.exists("/e")).ephemeral_owner == registry.session_id


async def test_a_suspended_session_can_continue(registry_backend, registry, other, calls):
    states, called = [], calls()
    registry.listen(states.append)
    await registry.create("/e", ephemeral=True)
    registry.watch_data("/p", called)
    await registry_backend.disconnect(registry)
    waiting = [asyncio.create_task(registry.exists("/e")), asyncio.create_task(registry.create("/p/late"))]
    await other.create("/p")
    assert registry.state is SUSPENDED
    assert not waiting[0].done()
    await registry_backend.reconnect(registry)
    assert (await waiting[0]).ephemeral_owner == registry.session_id
    assert await waiting[1] == "/p/late"
    await called.wait()
    assert states == [SUSPENDED, CONNECTED]


async def test_a_session_can_expire_while_suspended(registry_backend, other, calls, eventually):
    registry = await registry_backend.connect(timeout_ms=50)
    states, expired = [], calls()
    registry.listen(states.append)
    registry.listen(lambda state: expired() if state is EXPIRED else None)
    await registry.create("/e", ephemeral=True)
    await registry_backend.disconnect(registry)
    waiting = asyncio.create_task(registry.set("/e", b"late"))

    async def gone():
        return await other.exists("/e") is None

    await eventually(gone)
    assert registry.state is SUSPENDED  # it cannot know yet
    await registry_backend.reconnect(registry)
    with pytest.raises(SessionExpiredError):
        await waiting
    await expired.wait()
    assert states == [SUSPENDED, EXPIRED]
