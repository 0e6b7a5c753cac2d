"""A cluster for pictures of the console: fixed topics, records, groups and an open transaction, and an hour of rates.

Pages of other subjects add their state here, so that all pictures show the same cluster.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from broker.console.http_serving import add_security_headers
from client.admin.admin import Admin
from client.admin.quotas import DEFAULT, QuotaEntity
from client.admin.types import NewTopic
from client.consumer.consumer import Consumer
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from console.application import console_application
from console.clients import Clients
from console.groups.watches import GroupWatches
from console.services import ConsoleServices
from console.watching.observer import Observer
from ottla import testing
from ottla.testing.cluster_thread import ClusterThread
from security.acls.binding import AccessRule, AclBinding, ResourcePattern
from security.acls.types import Operation, Permission, ResourceType
from security.principal import Principal
from support.rest import served
from support.sasl import listener_settings, sasl_listeners

MINUTES = 60
TOPICS = {
    0: NewTopic("orders", 6, 3),
    1: NewTopic("payments", 3, 3),
    20: NewTopic("clicks", 12, 2),
    40: NewTopic("customers", 1, 3, configs={"cleanup.policy": "compact"}),
}
"""Topics, by the minute of their creation."""
AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS;User:alice",
}
LOGINS = {
    **sasl_listeners("SASL"),
    **listener_settings("SASL", "PLAIN"),
    "delegation.token.secret.key": "a secret of the demo",
}
ALICE: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "alice-secret",
}
BEHIND = {"billing": 120, "shipping": 15, "analytics": 0}
"""Groups, and how many records of each partition of orders they have not read."""
WATCHED, WATCHED_FROM = "shipping", 30
"""A group that the console watches from a minute on. It catches up."""
CLICKS_FROM, CUSTOMERS_FROM = 21, 41
CITIES = ("Praha", "Brno", "Ostrava", "Plzeň", "Liberec")


class Demo(NamedTuple):
    """The URLs of two consoles: one has seen the cluster for an hour; that of broker 1 knows its inside."""

    url: str
    own_url: str
    bootstrap_servers: str
    coordinator_url: str
    """That of the broker that coordinates the groups: only it shows their rebalances."""
    leader_url: str
    """That of the leader of orders-0: only it knows how far the followers are."""
    tokens_url: str
    """That of a console with a login: brokers give delegation tokens only to users who have logged in."""


class _Clock:
    """An hour that passes in seconds."""

    def __init__(self) -> None:
        self.ms = time.time_ns() // 1_000_000 - MINUTES * 60_000

    def __call__(self) -> int:
        return self.ms


@contextlib.asynccontextmanager
async def demo() -> AsyncIterator[Demo]:
    """Run the cluster and its consoles."""
    settings_of = {
        number: {
            "broker.rack": rack,
            **AUTHORIZER,
            **LOGINS,
            "ottla.console.listener": "127.0.0.1:0",
        }
        for number, rack in ((1, "a"), (2, "b"), (3, "c"))
    }
    with _directory() as folder, testing.cluster(3, settings_of=settings_of, directory=folder) as cluster:
        ports = [one.broker.acceptors["PLAINTEXT"].port for one in cluster.brokers.values() if one.broker]
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        broker = cluster.brokers[1].broker
        assert broker is not None
        assert broker.console is not None
        async with contextlib.AsyncExitStack() as stack:
            admin = await stack.enter_async_context(Admin(bootstrap_servers=servers))
            producer = await stack.enter_async_context(Producer(bootstrap_servers=servers))
            clock = _Clock()
            url = await stack.enter_async_context(_console(servers, clock))
            await _live_an_hour(admin, producer, clock, url)
            await _groups(admin)
            await _security(admin)
            secured = f"127.0.0.1:{broker.acceptors['SASL'].port}"
            await _tokens(secured)
            tokens_url = await stack.enter_async_context(_console(secured, clock, **ALICE))
            for number in (1, 2):
                name = f"billing-{number}"
                member = Consumer("orders", group_id="billing", client_id=name, bootstrap_servers=servers)
                await stack.enter_async_context(member)
            await stack.enter_async_context(_open_transaction(servers))
            await _look(url, clock)
            own_url = broker.console.url.removesuffix("/")
            coordinator_url = await _url_where(cluster, "groups/coordinator?group=billing", lambda one: one["is_here"])
            leader_url = await _url_where(
                cluster,
                "replication?topic=orders&partition=0",
                lambda one: one.get("leader", -1) == one.get("broker_id"),
            )
            yield Demo(url, own_url, servers, coordinator_url, leader_url, tokens_url)


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """Return a new folder, in memory if the system has one there: how full the disk is looks the same everywhere."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="demo-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@contextlib.asynccontextmanager
async def _console(servers: str, clock: _Clock, **login: Any) -> AsyncIterator[str]:
    clients = Clients(
        lambda: Admin(bootstrap_servers=servers, **login),
        lambda: Producer(bootstrap_servers=servers, allow_auto_create_topics=False, **login),
    )
    began_s = time.monotonic()

    def now_ms() -> int:
        return clock() + int(1000 * (time.monotonic() - began_s))

    async with clients:
        groups = GroupWatches(clock=lambda: now_ms() / 1000, now_ms=now_ms)
        application = console_application(ConsoleServices(clients, observer=Observer(clock), groups=groups))
        application.on_response_prepare.append(add_security_headers)
        async with served(application) as url:
            yield url


async def _live_an_hour(admin: Admin, producer: Producer, clock: _Clock, url: str) -> None:
    chance = random.Random(1)
    for minute in range(MINUTES):
        if minute in TOPICS:
            await admin.create_topics([TOPICS[minute]])
        for number in range(round(30 + 20 * math.sin(minute / 8) + chance.randrange(12))):
            order = {"order": 10_000 + 100 * minute + number, "city": chance.choice(CITIES), "total": number * 1.5}
            value = json.dumps(order, ensure_ascii=False).encode()
            await producer.send("orders", value, key=b"customer-%d" % chance.randrange(40))
            if minute > CLICKS_FROM:
                await producer.send("clicks", b"/basket/%d" % number, partition=number % 12)
            if minute > CUSTOMERS_FROM:
                await producer.send("customers", b'{"name": "Customer %d"}' % number, key=b"customer-%d" % number)
        await producer.flush()
        if minute >= WATCHED_FROM:
            await _commit(admin, WATCHED, minute)
            await _get(f"{url}/api/v1/groups/{WATCHED}")
        if minute < MINUTES - 1:  # the last look is when everything is there
            await _look(url, clock)


async def _look(url: str, clock: _Clock) -> None:
    clock.ms += 60_000
    await _get(f"{url}/api/v1/overview")


async def _get(url: str) -> None:
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        if response.status != HTTPStatus.NOT_FOUND:  # a group whose coordinator does not know it yet
            response.raise_for_status()


async def _groups(admin: Admin) -> None:
    for group in BEHIND:
        await _commit(admin, group, MINUTES)


async def _commit(admin: Admin, group: str, minute: int) -> None:
    """Commit what a group has read at a minute. Before the last one it is further behind, partition 0 most."""
    partitions = [TopicPartition("orders", number) for number in range(6)]
    ends = await admin.list_offsets(dict.fromkeys(partitions, -1))
    more = {name: (MINUTES - minute) * (6 - name.partition) // 2 for name in partitions}
    offsets = {
        name: OffsetAndMetadata(max(0, found.offset - BEHIND[group] - more[name])) for name, found in ends.items()
    }
    await admin.alter_group_offsets(group, offsets)


async def _security(admin: Admin) -> None:
    rules = {
        ("shop", "orders"): (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
        ("billing", "orders"): (Operation.READ, Operation.DESCRIBE),
        ("reports", "customers"): (Operation.READ,),
    }
    await admin.create_acls(
        AclBinding(
            ResourcePattern(ResourceType.TOPIC, topic), AccessRule(f"User:{user}", "*", operation, Permission.ALLOW)
        )
        for (user, topic), operations in rules.items()
        for operation in operations
    )
    for user in ("billing", "reports", "shop"):
        await admin.set_scram_password(user, f"{user}-secret")
    await admin.alter_client_quotas(
        {
            QuotaEntity(user="shop"): {"producer_byte_rate": 1_048_576.0},
            QuotaEntity(user="reports", client_id=DEFAULT): {
                "consumer_byte_rate": 524_288.0,
                "request_percentage": 50.0,
            },
        }
    )


async def _url_where(cluster: ClusterThread, inside: str, is_it: Callable[[Any], bool]) -> str:
    """Return the URL of the console whose answer of `/api/v1/inside/` is the wanted one."""
    async with aiohttp.ClientSession() as http:
        for member in cluster.brokers.values():
            assert member.broker is not None
            assert member.broker.console is not None
            url = member.broker.console.url.removesuffix("/")
            async with http.get(f"{url}/api/v1/inside/{inside}") as response:
                if is_it(await response.json()):
                    return url
    raise AssertionError(f"no console answers so to {inside}")


async def _tokens(servers: str) -> None:
    async with Admin(bootstrap_servers=servers, **ALICE) as admin:
        for renewers in (("billing", "shop"), ("reports",)):
            await admin.create_delegation_token([Principal("User", one) for one in renewers])


@contextlib.asynccontextmanager
async def _open_transaction(servers: str) -> AsyncIterator[None]:
    for name in ("payments-1", "payments-2"):
        async with Producer(transactional_id=name, bootstrap_servers=servers) as producer, producer.transaction():
            await producer.send("payments", b"paid", partition=0)
    async with Producer(transactional_id="payments-3", bootstrap_servers=servers) as producer:
        await producer.begin_transaction()
        await producer.send("payments", b"reserved", partition=1)
        await producer.flush()
        try:
            yield
        finally:
            await producer.abort_transaction()
