"""TLS, login and ACLs of a ZooKeeperConsumer towards ZooKeeper."""

import asyncio

import pytest

from client.errors import InvalidOptionError, ZooKeeperSessionError
from client.producer.producer import Producer
from client.zookeeper.consumer import ZooKeeperConsumer
from client.zookeeper.options import ZooKeeperConsumerOptions
from client.zookeeper.security_options import ZooKeeperSecurityOptions
from registry.errors import NoAuthError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.settings import NETTY_SOCKET
from security.jaas import PLAIN_MODULE, ZOOKEEPER_MODULE
from support.broker import running_broker
from support.deadlines import DEADLINE_S
from support.secured_zookeeper import secured_zookeeper
from support.zookeeper import new_chroot


def jaas(password="kafka-secret"):
    return f'{ZOOKEEPER_MODULE} required username="kafka" password="{password}";'


def tls():
    return {
        "zookeeper_ssl_client_enable": True,
        "zookeeper_ssl_truststore_location": str(secured_zookeeper().folder / "ca.pem"),
    }


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_group_on_a_protected_zookeeper(tmp_path, is_tls):
    server, chroot = secured_zookeeper(), new_chroot()
    connect = (server.tls_address if is_tls else server.address) + chroot
    secured = tls() if is_tls else {}
    options = {"zookeeper_sasl_jaas_config": jaas(), "zookeeper_set_acl": True, **secured}
    of_broker = {name.replace("_", "."): value if isinstance(value, str) else "true" for name, value in secured.items()}
    of_broker |= {"zookeeper.clientCnxnSocket": NETTY_SOCKET} if is_tls else {}
    of_broker |= {"zookeeper.set.acl": "true", "ottla.zookeeper.sasl.jaas.config": jaas()}
    async with running_broker(tmp_path / "data", zookeeper_connect=connect, **of_broker) as broker:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send("t", b"one", partition=0)
        consumer = ZooKeeperConsumer(
            ["t"], group_id="g", zookeeper_connect=connect, auto_offset_reset="smallest", **options
        )
        async with consumer, asyncio.timeout(DEADLINE_S):
            record = await anext(aiter(consumer))
            assert record.value == b"one"
            registry = ZooKeeperRegistry(ZooKeeperAddress.parse(server.address + chroot))
            await registry.start()
            (name,) = await registry.children("/consumers/g/ids")
            acl, _ = await registry.get_acl(f"/consumers/g/ids/{name}")
            assert {tuple(one) for one in acl} == {(31, "sasl", "kafka"), (1, "world", "anyone")}
            with pytest.raises(NoAuthError):
                await registry.set(f"/consumers/g/ids/{name}", b"")
            await registry.close()


async def test_a_wrong_password_ends_the_start():
    consumer = ZooKeeperConsumer(
        ["t"],
        group_id="g",
        zookeeper_connect=secured_zookeeper().address,
        zookeeper_sasl_jaas_config=jaas("wrong-secret"),
    )
    with pytest.raises(ZooKeeperSessionError, match="refuses the login") as caught:
        await consumer.start()
    assert "wrong-secret" not in str(caught.value)
    await consumer.close()


@pytest.mark.parametrize(
    ("options", "name", "rule"),
    [
        ({"zookeeper_ssl_truststore_location": "ca.pem"}, "zookeeper_ssl_truststore_location", "has no effect"),
        ({"zookeeper_set_acl": True}, "zookeeper_set_acl", "needs a login"),
        ({"zookeeper_ssl_keystore_password": "hush"}, "zookeeper_ssl_keystore_password", "has no effect"),
    ],
)
def test_options_that_break_a_rule(options, name, rule):
    with pytest.raises(InvalidOptionError, match=rule) as caught:
        ZooKeeperConsumerOptions(group_id="g", **options)
    assert caught.value.option == name
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "name", "rule"),
    [
        (
            {"zookeeper_sasl_jaas_config": f"{PLAIN_MODULE} required password=hush;"},
            "zookeeper_sasl_jaas_config",
            "must be",
        ),
        ({"zookeeper_sasl_jaas_file": "/nowhere"}, "zookeeper_sasl_jaas_file", "cannot be read"),
        (
            {"zookeeper_ssl_client_enable": True, "zookeeper_ssl_cipher_suites": "A, B"},
            "zookeeper_ssl_cipher_suites",
            "know",
        ),
        (
            {"zookeeper_ssl_client_enable": True, "zookeeper_ssl_enabled_protocols": "TLSv1.1,"},
            "zookeeper_ssl_enabled_protocols",
            "older versions",
        ),
    ],
)
def test_what_only_shows_when_files_are_read(options, name, rule):
    with pytest.raises(InvalidOptionError, match=rule) as caught:
        ZooKeeperConsumer(["t"], group_id="g", **options)
    assert caught.value.option == name
    assert "hush" not in str(caught.value)


def test_secrets_are_not_shown():
    options = ZooKeeperSecurityOptions(zookeeper_sasl_jaas_config=jaas())
    assert "kafka-secret" not in repr(options)
    assert options.load_zookeeper_security().login.username == "kafka"
