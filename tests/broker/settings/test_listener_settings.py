"""Settings of one listener override the broker's."""

import pytest

from broker.settings.config import BrokerConfig
from broker.settings.dynamic import DynamicBrokerConfig
from broker.settings.listener_settings import base_name, is_of_console
from storage.setting import ConfigError

SETTINGS = {
    "ssl.keystore.location": "/all.p12",
    "listener.name.external.ssl.keystore.location": "/external.p12",
    "sasl.server.max.receive.size": "1000",
    "listener.name.external.plain.sasl.jaas.config": "one",
    "listener.name.external.sasl.server.max.receive.size": "2000",
    "listener.name.external.plain.sasl.server.max.receive.size": "3000",
}


def test_the_most_specific_value_decides():
    config = BrokerConfig(SETTINGS)
    external, other = config.of_listener("EXTERNAL"), config.of_listener("OTHER")
    assert external.value("ssl.keystore.location") == "/external.p12"
    assert other.value("ssl.keystore.location") == "/all.p12"
    assert external.value("sasl.jaas.config", "PLAIN") == "one"
    assert external.value("sasl.jaas.config", "SCRAM-SHA-256") is None
    name = "sasl.server.max.receive.size"
    assert [other.value(name), external.value(name), external.value(name, "PLAIN")] == [1000, 2000, 3000]
    assert external.lookup(name, "PLAIN")[0] == f"listener.name.external.plain.{name}"
    assert other.lookup(name)[0] == name


def test_a_value_of_a_listener_is_checked():
    name = "listener.name.external.sasl.server.max.receive.size"
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name: "many"})
    assert caught.value.name == name


CONSOLE = {
    "ssl.keystore.location": "/all.p12",
    "ssl.client.auth": "required",
    "ssl.keystore.type": "PKCS12",
    "ottla.console.listener": "https://127.0.0.1:0",
    "ottla.console.ssl.keystore.location": "/console.p12",
    "ottla.console.ssl.keystore.password": "planted-secret",
}


def test_the_console_has_settings_like_a_listener():
    config = BrokerConfig(CONSOLE)
    console = config.of_console()
    assert console.lookup("ssl.keystore.location") == ("ottla.console.ssl.keystore.location", "/console.p12")
    assert console.lookup("ssl.keystore.type") == ("ssl.keystore.type", "PKCS12")
    assert console.lookup("ssl.client.auth") == ("ottla.console.ssl.client.auth", "none")
    assert config.of_listener("CONSOLE").value("ssl.keystore.location") == "/all.p12"


def test_names_of_the_console():
    assert base_name("ottla.console.ssl.keystore.location") == "ssl.keystore.location"
    for name in ("ottla.console.listener", "ottla.console.num.partitions", "ottla.console.ssl.x", "ssl.protocol"):
        assert not is_of_console(name)
        assert base_name(name) == name


def test_passwords_of_the_console_are_not_described():
    described = {one.name: one for one in DynamicBrokerConfig(BrokerConfig(CONSOLE)).describe_broker()}
    secret = described["ottla.console.ssl.keystore.password"]
    assert (secret.sensitive, secret.value) == (True, None)
    assert [value for _, value, _ in secret.synonyms] == [None]
    assert described["ottla.console.ssl.keystore.location"].value == "/console.p12"


def test_a_stored_setting_of_tls_does_not_cost_the_others_when_the_console_has_none():
    dynamic = DynamicBrokerConfig(BrokerConfig({"ottla.console.listener": "127.0.0.1:0"}))
    stored = {"ottla.console.ssl.keystore.location": "/console.p12", "message.max.bytes": "5"}
    changed, warnings = dynamic.apply(per_broker=stored)
    assert ("message.max.bytes" in changed, warnings) == (True, [])
