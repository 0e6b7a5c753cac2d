"""The links between brokers and ZooKeepers: each broker has proxies of its own, which run in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any

from registry.zookeeper.address import ZooKeeperAddress
from support.tcp_proxy import TcpProxy


class ZooKeeperLinks:
    """Use it in a `with` statement."""

    def __init__(self, connect: str, brokers: Iterable[int]) -> None:
        """connect: the ZooKeepers, as in `zookeeper.connect`."""
        address = ZooKeeperAddress.parse(connect)
        self._chroot = address.chroot
        self._proxies = {broker_id: [TcpProxy(*server) for server in address.servers] for broker_id in brokers}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> ZooKeeperLinks:
        self._thread.start()
        for proxy in self._all():
            self._run(proxy.start())
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self._all():
            self._run(proxy.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def connect(self, broker_id: int) -> str:
        """The `zookeeper.connect` of a broker."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self._proxies[broker_id]) + self._chroot

    def cut(self, broker_id: int) -> None:
        """Close the connections of a broker, and refuse new ones."""

        async def cut() -> None:
            for proxy in self._proxies[broker_id]:
                proxy.cut()

        self._run(cut())

    def silence(self, broker_id: int, *, answers_only: bool) -> None:
        """Nothing arrives from a broker or at it, or only what the broker sends does. It arrives when this is over."""

        async def silence() -> None:
            for proxy in self._proxies[broker_id]:
                proxy.stall(answers_only=answers_only)

        self._run(silence())

    def heal(self) -> None:
        """End all of it."""
        for proxy in self._all():
            self._run(proxy.heal())

    def _all(self) -> list[TcpProxy]:
        return [proxy for proxies in self._proxies.values() for proxy in proxies]

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
