"""Logins to a real ZooKeeper with Kerberos. DIGEST-MD5: test_security.py."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from registry.errors import NoAuthError, RegistryLoginError
from registry.interface import Acl, ConnectionState
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.security import UNSECURED, ZooKeeperSecurity
from registry.zookeeper.settings import ZooKeeperSettings
from security.jaas import KERBEROS_MODULE
from support.kerberos import REALM, Realm, running_realm
from support.kerberos_zookeeper import KerberosServer, kerberos_zookeeper
from support.polling import until
from support.secured_zookeeper import secured_zookeeper
from support.tcp_proxy import TcpProxy
from support.zookeeper import heard, new_chroot

CLIENT = "kafka/broker1"
SERVICE = "coordination"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with running_realm(tmp_path_factory.mktemp("realm")) as running:
        yield running


@pytest.fixture(scope="module")
def keytab(realm: Realm) -> Path:
    return realm.keytab(CLIENT)


@pytest.fixture(scope="module")
def server(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosServer]:
    with kerberos_zookeeper(tmp_path_factory.mktemp("zookeeper"), realm, SERVICE) as running:
        yield running


def security(options: str, service: str = SERVICE, *, sets_acls: bool = False) -> ZooKeeperSecurity:
    """How a registry with this JAAS line reaches a server."""
    values = {
        "ottla.zookeeper.sasl.jaas.config": f"{KERBEROS_MODULE} required {options};",
        "ottla.zookeeper.sasl.client.username": service,
        "zookeeper.set.acl": sets_acls,
    }
    return ZooKeeperSettings.of(values.get).load()


def with_keytab(keytab: Path, principal: str = CLIENT, service: str = SERVICE) -> ZooKeeperSecurity:
    return security(f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}"', service)


@contextlib.asynccontextmanager
async def opened(
    how: ZooKeeperSecurity, address: str, *, start: bool = True, timeout_ms: int = 18_000
) -> AsyncIterator[ZooKeeperRegistry]:
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(address), connection_timeout_ms=timeout_ms, security=how)
    try:
        if start:
            await registry.start()
        yield registry
    finally:
        await registry.close()


async def test_a_login_with_a_keytab(server: KerberosServer, keytab: Path) -> None:
    chroot = new_chroot()
    async with opened(with_keytab(keytab), server.kerberos_address + chroot) as registry:
        await registry.create("/mine", b"x", acl=[Acl(31, "auth", "")])
        acls, _ = await registry.get_acl("/mine")
        assert list(acls) == [Acl(31, "sasl", f"{CLIENT}@{REALM}")]
        assert (await registry.get("/mine"))[0] == b"x"
    async with opened(UNSECURED, server.kerberos_address + chroot) as nobody:
        with pytest.raises(NoAuthError):
            await nobody.get("/mine")


async def test_a_login_with_a_ticket_cache(server: KerberosServer, realm: Realm, keytab: Path) -> None:
    tickets = realm.tickets(keytab, CLIENT)
    how = security(f'useTicketCache=true ticketCache="{tickets}"')
    async with opened(how, server.kerberos_address) as registry:
        assert await registry.exists("/zookeeper")


async def test_a_restored_connection_logs_in_again(server: KerberosServer, keytab: Path) -> None:
    async with (
        TcpProxy("127.0.0.1", server.port) as proxy,
        opened(with_keytab(keytab), f"localhost:{proxy.port}{new_chroot()}") as registry,
    ):
        await registry.create("/mine", acl=[Acl(31, "auth", "")])
        session_id = registry.session_id
        async with heard(registry, ConnectionState.SUSPENDED):
            proxy.cut()
        async with heard(registry, ConnectionState.CONNECTED):
            await proxy.heal()
        assert registry.session_id == session_id
        assert (await registry.get("/mine"))[0] is None


async def test_another_service_has_no_ticket(server: KerberosServer, keytab: Path) -> None:
    async with opened(with_keytab(keytab, service="unknown"), server.kerberos_address, start=False) as registry:
        with pytest.raises(
            RegistryLoginError, match=r"refuses the login: localhost:.*: GSSAPI: Server unknown/localhost"
        ):
            await registry.start()


async def test_a_principal_without_a_key_is_refused(server: KerberosServer, keytab: Path) -> None:
    async with opened(with_keytab(keytab, "nobody"), server.kerberos_address, start=False) as registry:
        with pytest.raises(RegistryLoginError, match="GSSAPI: "):
            await registry.start()


async def test_without_a_kdc_the_login_is_tried_again(
    server: KerberosServer, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KDC that is away for a moment does not end the session."""
    other = realm.keytab("other/broker")  # its tickets are in no cache yet
    async with (
        opened(with_keytab(other, "other/broker"), server.kerberos_address, start=False) as registry,
        asyncio.TaskGroup() as tasks,
    ):
        with monkeypatch.context() as patched:
            patched.setenv("KRB5_CONFIG", realm.without_kdc())
            starting = tasks.create_task(registry.start())
            await until(lambda: "GSSAPI: Cannot contact any KDC" in _why(registry), "the first login fails")
        assert os.environ["KRB5_CONFIG"] == realm.environment["KRB5_CONFIG"]
        await starting
        assert await registry.exists("/zookeeper")


def _why(registry: ZooKeeperRegistry) -> str:
    """Why there is no session."""
    return "" if registry._session is None else registry._session._handler.why


async def test_a_server_with_other_logins(keytab: Path, realm: Realm) -> None:
    """The ticket is there, and the server does not take it."""
    realm.keytab("zookeeper/localhost")
    server = secured_zookeeper()
    async with opened(with_keytab(keytab, service="zookeeper"), f"localhost:{server.port}", start=False) as registry:
        with pytest.raises(RegistryLoginError, match="refuses the login"):
            await registry.start()
