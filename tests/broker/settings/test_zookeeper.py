"""Settings of security towards ZooKeeper, as a broker checks them."""

import pytest

from broker.settings.config import BrokerConfig
from broker.settings.zookeeper import load_security, load_zookeeper_security
from security.jaas import ZOOKEEPER_MODULE
from storage.setting import ConfigError

JAAS = f"{ZOOKEEPER_MODULE} required username=kafka password=hush;"
ZOOKEEPER = {"zookeeper.connect": "zk:2181"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("zookeeper.set.acl", "true"),
        ("zookeeper.ssl.client.enable", "true"),
        ("zookeeper.ssl.truststore.location", "/ca.pem"),
        ("ottla.zookeeper.sasl.jaas.config", JAAS),
        ("ottla.zookeeper.sasl.jaas.file", "/jaas.conf"),
    ],
)
def test_without_zookeeper_they_are_refused(name, value):
    with pytest.raises(ConfigError, match=r"needs zookeeper\.connect") as caught:
        BrokerConfig({name: value})
    assert caught.value.name == name
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl=true: needs a login to ZooKeeper"),
        (
            {"zookeeper.ssl.client.enable": "true"},
            "zookeeper.ssl.client.enable=true: needs zookeeper.client",
        ),
        (
            {"zookeeper.ssl.keystore.password": "hush"},
            "zookeeper.ssl.keystore.password=[hidden]: has no effect",
        ),
        ({"zookeeper.ssl.cipher.suites": "A,B"}, "zookeeper.ssl.cipher.suites=A,B: has no effect without"),
    ],
)
def test_rules_are_checked_before_the_start(values, text):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(ZOOKEEPER | values)
    assert str(caught.value).startswith(text)


def test_files_are_read_at_the_start():
    config = BrokerConfig(ZOOKEEPER | {"ottla.zookeeper.sasl.jaas.file": "/nowhere/jaas.conf"})
    with pytest.raises(ConfigError, match=r"^ottla\.zookeeper\.sasl\.jaas\.file=/nowhere.*cannot be read"):
        load_zookeeper_security(config)


def test_a_login_with_acls():
    config = BrokerConfig(ZOOKEEPER | {"ottla.zookeeper.sasl.jaas.config": JAAS, "zookeeper.set.acl": "true"})
    security = load_zookeeper_security(config)
    assert (security.login.username, security.sets_acls) == ("kafka", True)


@pytest.mark.parametrize(
    ("connect", "is_weak"),
    [("zk:2181", True), ("127.0.0.1:2181,192.0.2.1:2181/ottla", True), ("localhost,127.0.0.2:2181/ottla", False)],
)
def test_a_login_without_tls_over_a_network_causes_a_warning(connect, is_weak):
    login = {"zookeeper.connect": connect, "ottla.zookeeper.sasl.jaas.config": JAAS}
    warnings = BrokerConfig(login).warnings
    assert ["in plain text; set zookeeper.ssl.client.enable=true" in one for one in warnings] == [True] * is_weak
    assert "hush" not in repr(warnings)
    tls = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
    }
    assert BrokerConfig(login | tls).warnings == []


def test_a_missing_setting_has_no_value_in_the_error():
    values = {"zookeeper.ssl.client.enable": True, "zookeeper.clientCnxnSocket": None}
    values["zookeeper.clientCnxnSocket"] = "org.apache.zookeeper.ClientCnxnSocketNetty"
    with pytest.raises(ConfigError, match=r"^zookeeper\.ssl\.keystore\.type: must be set"):
        load_security(values | {"zookeeper.ssl.keystore.location": "/key"})
