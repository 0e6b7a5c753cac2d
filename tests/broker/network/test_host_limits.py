"""Limits of hosts with names. Whole brokers with them: tests/broker/test_setting_effects_network.py."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from broker.network.host_limits import HostLimits
from storage.setting import ConfigError


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Known names, with their addresses in the order of the resolver."""
    known: dict[str, list[str]] = {}

    async def getaddrinfo(self: object, name: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        if name not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        families = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in known[name]]
        return [(family, 1, 6, "", (one, 0)) for family, one in zip(families, known[name], strict=True)]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return known


async def test_a_name_stands_for_its_first_address_and_ipv4_comes_first(names: dict[str, list[str]]) -> None:
    names |= {"both": ["2001:db8::1", "192.0.2.1", "192.0.2.2"], "six": ["2001:db8::2", "2001:db8::3"]}
    limits = HostLimits()
    await limits.use({"both": 1, "six": 2, "192.0.2.9": 3})
    assert limits.by_address == {"192.0.2.1": 1, "2001:db8::2": 2, "192.0.2.9": 3}


@pytest.mark.parametrize("name", ["no..host", "x" * 64])
async def test_a_name_without_an_address_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides=.*: the name has no address"):
        await HostLimits().use({name: 1})


async def test_changed_names_are_looked_up_in_a_task(
    names: dict[str, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    names["a"] = ["192.0.2.1"]
    used: list[dict[str, int]] = []
    limits = HostLimits()

    async def change(wanted: dict[str, int]) -> None:
        async with asyncio.TaskGroup() as tasks:
            limits.changed(wanted, tasks.create_task, lambda: used.append(dict(limits.by_address)))

    await change({"192.0.2.7": 7})
    assert (limits.by_address, used) == ({"192.0.2.7": 7}, [])  # no task is needed
    await change({"a": 1})
    await change({"a": 1})
    assert used == [{"192.0.2.1": 1}]
    with caplog.at_level(logging.ERROR):
        await change({"a": 2, "nobody": 3})
    assert "nobody: the name has no address: Name or service not known" in caplog.text
    assert used == [{"192.0.2.1": 1}] == [dict(limits.by_address)]


async def test_the_last_change_counts(names: dict[str, list[str]]) -> None:
    names["a"] = ["192.0.2.1"]
    limits = HostLimits()
    async with asyncio.TaskGroup() as tasks:
        limits.changed({"a": 1}, tasks.create_task, lambda: None)
        await asyncio.sleep(0)
        limits.changed({"192.0.2.7": 7}, tasks.create_task, lambda: None)
    assert limits.by_address == {"192.0.2.7": 7}
