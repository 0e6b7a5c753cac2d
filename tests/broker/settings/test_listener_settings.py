"""Settings of one listener override the broker's."""

import pytest

from broker.settings.config import BrokerConfig
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
