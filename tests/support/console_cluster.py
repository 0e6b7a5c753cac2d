"""A cluster of three brokers that have a console each."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping

import aiohttp
from playwright.async_api import Browser

from ottla import testing
from ottla.cluster.ports import free_ports
from ottla.testing.cluster_thread import ClusterThread
from support.console_pages import ConsolePages
from support.rest import Rest

BROKERS = (1, 2, 3)


class ConsoleCluster:
    """The cluster, and the addresses of its consoles by broker."""

    def __init__(self, cluster: ClusterThread, urls: Mapping[int, str]) -> None:
        self.cluster = cluster
        self.urls = urls

    @contextlib.asynccontextmanager
    async def pages(self, browser: Browser, broker: int) -> AsyncIterator[ConsolePages]:
        """The console of one broker."""
        url = self.urls[broker]
        async with aiohttp.ClientSession() as http:
            session = await Rest(http, url, "").get("/api/v1/session")
            assert session["broker_id"] == broker
            yield ConsolePages(browser, Rest(http, url, session["cluster_id"]))


@contextlib.contextmanager
def console_cluster(settings: Mapping[str, str]) -> Iterator[ConsoleCluster]:
    """A running cluster. settings: of every broker."""
    ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
    settings_of = {broker: {"ottla.console.listener": f"127.0.0.1:{port}"} for broker, port in ports.items()}
    with testing.cluster(len(BROKERS), settings=settings, settings_of=settings_of) as running:
        yield ConsoleCluster(running, {broker: f"http://127.0.0.1:{port}" for broker, port in ports.items()})
