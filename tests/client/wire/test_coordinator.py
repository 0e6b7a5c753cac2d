"""The separate connection to a coordinator: closing leaves none open."""

import asyncio

import pytest

from client.errors import ClosedError
from client.wire import coordinator
from client.wire.coordinator import Coordinator, CoordinatorType


class Opened:
    def __init__(self):
        self.is_closed = False

    def abort(self):
        self.is_closed = True

    async def close(self):
        self.is_closed = True


class SlowCluster:
    """Opens a connection when `may_open` is set."""

    def __init__(self):
        self.may_open = asyncio.Event()
        self.opening = asyncio.Event()
        self.opened = []

    async def open_own(self, node_id):
        self.opening.set()
        await self.may_open.wait()
        self.opened.append(Opened())
        return self.opened[-1]


async def test_a_connection_opened_during_close_is_closed(monkeypatch):
    async def find_coordinator(cluster, kind, key):
        return 0

    monkeypatch.setattr(coordinator, "find_coordinator", find_coordinator)
    cluster = SlowCluster()
    group = Coordinator(cluster, CoordinatorType.GROUP, "g")
    opening = asyncio.create_task(group.connection())
    await cluster.opening.wait()
    await group.close()
    cluster.may_open.set()
    with pytest.raises(ClosedError):
        await opening
    assert [one.is_closed for one in cluster.opened] == [True]
