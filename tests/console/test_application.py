"""Health, the root, and what is answered while the cluster cannot be reached."""

import contextlib

import aiohttp

from client.admin.admin import Admin
from client.producer.producer import Producer
from console.application import console_application
from console.clients import Clients
from console.services import ConsoleServices
from ottla.cluster.ports import free_ports
from support.deadlines import DEADLINE_MS
from support.rest import rest_api, served


@contextlib.asynccontextmanager
async def for_servers(bootstrap_servers):
    def admin():
        return Admin(bootstrap_servers=bootstrap_servers(), default_api_timeout_ms=DEADLINE_MS)

    def producer():
        return Producer(bootstrap_servers=bootstrap_servers())

    async with (
        Clients(admin, producer) as clients,
        served(console_application(ConsoleServices(clients))) as url,
        aiohttp.ClientSession(url) as http,
    ):
        yield http


async def test_health_and_the_root(broker):
    async with rest_api(broker.bootstrap_servers) as rest:
        for path, text in (("/healthz", "alive"), ("/readyz", "ready"), ("/", "<title>Ottla</title>")):
            async with rest.http.get(rest.url + path) as response:
                assert response.status == 200
                assert text in await response.text()


async def test_a_cluster_that_is_reached_later(broker):
    servers = [f"127.0.0.1:{free_ports(1)[0]}"]
    async with for_servers(lambda: servers[-1]) as http:
        async with http.get("/healthz") as response:
            assert response.status == 200
        async with http.get("/readyz") as response:
            assert response.status == 503
            assert "not ready: " in await response.text()
        async with http.get("/v3/clusters") as response:
            assert response.status == 503
            assert (await response.json())["error_code"] == 50302
        servers.append(broker.bootstrap_servers)
        async with http.get("/readyz") as response:
            assert response.status == 200
        async with http.get("/v3/clusters") as response:
            assert response.status == 200
