"""TLS and SASL to a real ZooKeeper."""

import asyncio
import contextlib

import pytest
from kazoo import exceptions as kazoo

from registry.errors import ConnectionLossError, InvalidAclError, NoAuthError, RegistryLoginError
from registry.interface import Acl, ConnectionState, Create
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.errors import translated
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.security import UNSECURED
from registry.zookeeper.session import end_session
from registry.zookeeper.settings import NETTY_SOCKET, ZooKeeperSettings
from support.certificates import authority
from support.deadlines import DEADLINE_S
from support.polling import until
from support.secured_zookeeper import secured_zookeeper
from support.tcp_proxy import TcpProxy
from support.zookeeper import heard, new_chroot, shared_zookeeper

WAYS = {
    "tls": {"tls": True},
    "tls-certificate": {"tls": True, "certificate": True},
    "sasl": {"user": "kafka"},
    "tls-sasl": {"tls": True, "user": "kafka"},
}


@contextlib.asynccontextmanager
async def opened(security, *, chroot="", port=None, host="localhost", start=True, timeout_ms=18_000):
    server = secured_zookeeper()
    port = port or (server.tls_port if security.tls is not None else server.port)
    address = ZooKeeperAddress.parse(f"{host}:{port}{chroot}")
    registry = ZooKeeperRegistry(address, connection_timeout_ms=timeout_ms, security=security)
    try:
        if start:
            await registry.start()
        yield registry
    finally:
        await registry.close()


@pytest.fixture(params=WAYS)
def way(request):
    return secured_zookeeper().security(**WAYS[request.param])


async def test_everything_works(way):
    async with opened(way, chroot=new_chroot()) as registry:
        values = [b"%d" % number * 20_000 for number in range(10)]
        await asyncio.gather(*(registry.create(f"/n{number}", value) for number, value in enumerate(values)))
        # The answers arrive together, so OpenSSL has several in one record.
        found = await asyncio.gather(*(registry.get(f"/n{number}") for number in range(10)))
        assert [data for data, _ in found] == values
        changed = asyncio.Event()
        registry.watch_children("/n1", changed.set)
        await registry.multi([Create("/n1/a", b"x", ephemeral=True)])
        async with asyncio.timeout(DEADLINE_S):
            await changed.wait()
        assert await registry.end_session((1, b"x" * 16)) is False


async def test_a_restored_connection_is_secured_again(way):
    server = secured_zookeeper()
    async with (
        TcpProxy("127.0.0.1", server.tls_port if way.tls is not None else server.port) as proxy,
        opened(way, chroot=new_chroot(), port=proxy.port) as registry,
    ):
        await registry.create("/mine", acl=[Acl(31, "auth", "")] if way.login else None)
        session_id = registry.session_id
        async with heard(registry, ConnectionState.SUSPENDED):
            proxy.cut()
        async with heard(registry, ConnectionState.CONNECTED):
            await proxy.heal()
        assert registry.session_id == session_id
        assert (await registry.get("/mine"))[0] is None


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_wrong_password_ends_the_start(is_tls):
    for user, password in (("kafka", "WRONG-secret"), ("other", "kafka-secret")):
        security = secured_zookeeper().security(tls=is_tls, user=user, password=password)
        async with opened(security, start=False) as registry:
            with pytest.raises(RegistryLoginError, match=r"refuses the login: localhost.*user name and pass") as caught:
                await registry.start()
            assert "secret" not in str(caught.value)
            assert "secret" not in repr(security)


async def test_a_password_that_has_become_wrong_ends_the_session(monkeypatch, caplog):
    security = secured_zookeeper().security(user="kafka")
    async with (
        TcpProxy("127.0.0.1", secured_zookeeper().port) as proxy,
        opened(security, port=proxy.port) as registry,
    ):
        async with heard(registry, ConnectionState.SUSPENDED):
            proxy.cut()
        monkeypatch.setattr(registry._session, "_login", security.login._replace(username="nobody"))
        async with heard(registry, ConnectionState.EXPIRED):
            await proxy.heal()
        await registry.start()  # with the right one
        assert await registry.exists("/zookeeper")
    assert "ZooKeeper refuses the login: localhost" in caplog.text


async def test_a_server_without_sasl():
    security = secured_zookeeper().security(user="kafka")
    async with opened(security, port=shared_zookeeper().servers[0].port, start=False) as registry:
        with pytest.raises(RegistryLoginError, match="the server has no SASL login"):
            await registry.start()


@pytest.mark.parametrize(
    ("host", "is_plain_port", "why"),
    [
        ("127.0.0.2", False, "IP address mismatch"),
        ("localhost", True, "is this its port for TLS"),
    ],
)
async def test_a_server_that_cannot_be_trusted(host, is_plain_port, why):
    server = secured_zookeeper()
    async with TcpProxy("127.0.0.1", server.port if is_plain_port else server.tls_port, host=host) as proxy:
        security = server.security(tls=True)
        async with opened(security, host=host, port=proxy.port, start=False, timeout_ms=1_000) as registry:
            with pytest.raises(ConnectionLossError, match=why):
                await registry.start()


async def test_plain_text_to_a_port_for_tls():
    async with opened(UNSECURED, port=secured_zookeeper().tls_port, start=False, timeout_ms=1_000) as registry:
        with pytest.raises(ConnectionLossError, match="does this port expect TLS"):
            await registry.start()


ACLS = {
    "sasl": ({"user": "kafka"}, {("sasl", "kafka")}),
    "certificate": ({"tls": True, "certificate": True}, {("x509", "CN=client")}),
    "both": ({"tls": True, "certificate": True, "user": "kafka"}, {("sasl", "kafka"), ("x509", "CN=client")}),
}


@pytest.mark.parametrize("way", ACLS)
async def test_acls_of_what_is_created(way):
    options, owners = ACLS[way]
    security = secured_zookeeper().security(sets_acls=True, **options)
    chroot = new_chroot()
    readable = {*((31, *owner) for owner in owners), (1, "world", "anyone")}
    hidden = {(31, *owner) for owner in owners}
    async with opened(security, chroot=f"{chroot}/a") as registry, opened(UNSECURED) as stranger:
        await registry.create("/config/users/u", b"keys", make_parents=True)
        await registry.multi([Create("/consumers"), Create("/controller", ephemeral=True), Create("/config/brokers")])
        await registry.create("/config/change_", sequence=True)
        await registry.create("/open", acl=[Acl(31, "world", "anyone")])
        found = {}
        for path in ("/config/users/u", "/config/users", "/config/brokers", "/config", "/controller", "/consumers"):
            found[path] = {tuple(one) for one in (await registry.get_acl(path))[0]}
        everybody = {(31, "world", "anyone")}
        assert found == {
            "/config/users/u": hidden,
            "/config/users": hidden,
            "/config/brokers": hidden,
            "/config": readable,
            "/controller": readable,
            "/consumers": everybody,
        }
        assert {tuple(one) for one in (await registry.get_acl("/open"))[0]} == everybody
        assert {tuple(one) for one in (await stranger.get_acl(chroot))[0]} == readable
        assert (await registry.get("/config/users/u"))[0] == b"keys"
        with pytest.raises(NoAuthError):
            await stranger.get(f"{chroot}/a/config/users/u")
        with pytest.raises(NoAuthError):
            await stranger.set(f"{chroot}/a/config", b"")
        assert await stranger.children(f"{chroot}/a/config")


async def test_acls_need_an_identity():
    async with opened(secured_zookeeper().security(sets_acls=True)) as registry:
        with pytest.raises(InvalidAclError):
            await registry.create(new_chroot())


async def test_the_session_of_another_user_can_be_ended_with_its_password():
    security = secured_zookeeper().security(user="kafka")
    async with opened(security) as registry:
        address = ZooKeeperAddress.parse(secured_zookeeper().address)
        async with heard(registry, ConnectionState.EXPIRED):
            assert await end_session(address, registry.credentials, 10_000, security)


async def test_a_new_connection_uses_new_certificates(tmp_path):
    server, key = secured_zookeeper(), tmp_path / "key.pem"
    authority().issue("CN=first").write(key)
    values = {
        "zookeeper.ssl.client.enable": True,
        "zookeeper.clientCnxnSocket": NETTY_SOCKET,
        "zookeeper.ssl.keystore.location": str(key),
        "zookeeper.ssl.truststore.location": str(server.folder / "ca.pem"),
        "zookeeper.set.acl": True,
    }
    security = ZooKeeperSettings.of(values.get).load()
    chroot = new_chroot()
    async with (
        TcpProxy("127.0.0.1", server.tls_port) as proxy,
        opened(security, chroot=chroot, port=proxy.port) as registry,
    ):
        await registry.create("/old", acl=[Acl(31, "world", "anyone")])
        async with heard(registry, ConnectionState.SUSPENDED):
            proxy.cut()
        key.write_text("no key")
        await proxy.heal()
        await until(lambda: "contains no private key" in registry._session._handler.why, "the file is read")
        async with heard(registry, ConnectionState.CONNECTED):
            authority().issue("CN=second").write(key)
        await registry.create("/old/new")
        assert (await registry.get_acl("/old/new"))[0][0] == Acl(31, "x509", "CN=second")


@pytest.mark.parametrize("error", [kazoo.SessionClosedRequireSaslError(), kazoo.AuthFailedError()])
def test_servers_that_require_a_login(error):
    assert isinstance(translated(error, "/"), NoAuthError)
    assert "require a login" in str(translated(error, "/"))
