from __future__ import annotations

import os

from spark_connector.idle_clients import IdleClients
from support.polling import until


class Client:
    def __init__(self):
        self.is_closed = False

    async def close(self):
        self.is_closed = True


async def test_a_client_is_reused_for_the_same_options():
    idle = IdleClients[Client]()
    first, second = Client(), Client()
    idle.put(first, {"a": 1, "b": 2})
    idle.put(second, {"a": 2})
    assert idle.take({"a": 1}) is None
    assert idle.take({"b": 2, "a": 1}) is first
    assert idle.take({"b": 2, "a": 1}) is None
    assert len(idle) == 1


async def test_unused_clients_are_closed():
    idle = IdleClients[Client](idle_s=0.01)
    unwanted, wanted = Client(), Client()
    idle.put(unwanted, {})
    idle.put(wanted, {"a": 1})
    assert idle.take({"a": 1}) is wanted
    await until(lambda: unwanted.is_closed, "it is closed")
    assert len(idle) == 0
    assert not wanted.is_closed


async def test_a_forked_process_inherits_no_clients(monkeypatch):
    idle = IdleClients[Client]()
    assert idle.take({}) is None
    idle.put(Client(), {})
    monkeypatch.setattr(os, "getpid", lambda: -2)
    assert idle.take({}) is None
