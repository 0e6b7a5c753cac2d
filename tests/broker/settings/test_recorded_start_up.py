"""Which configurations start: the rows of start-up.tsv, recorded from Kafka, that are of the broker as a whole.

Elsewhere: TLS (tests/broker/network/test_listener_tls.py), SASL (tests/broker/authentication/test_settings.py), between
brokers (tests/broker/cluster/test_inter_broker.py), ZooKeeper (the tests of the registry).
"""

import csv

import pytest

from broker.settings.checks import ACL_AUTHORIZER
from broker.settings.config import BrokerConfig
from storage.setting import ConfigError
from support.broker import settings
from support.reference import REFERENCE

AREAS = {"authorizer", "tokens", "connections and quotas", "password encoder", "other"}
AUTHORIZER = {"authorizer.class.name": ACL_AUTHORIZER}
CONFIGURATIONS = {
    "AclAuthorizer, no super users, PLAINTEXT between brokers": AUTHORIZER,
    "super.users=alice without authorizer": {"super.users": "alice"},
    "delegation.token.secret.key set": {"delegation.token.secret.key": "s"},
    "delegation.token.master.key set": {"delegation.token.master.key": "s"},
    "both secret and master key": {"delegation.token.secret.key": "s", "delegation.token.master.key": "t"},
    "empty delegation.token.secret.key": {"delegation.token.secret.key": ""},
    "expiry time above max lifetime": {
        "delegation.token.secret.key": "s",
        "delegation.token.expiry.time.ms": "2000",
        "delegation.token.max.lifetime.ms": "1000",
    },
    "max.connections.per.ip=0 with an override": {
        "max.connections.per.ip": "0",
        "max.connections.per.ip.overrides": "127.0.0.1:5",
    },
    "connection.failed.authentication.delay.ms above connections.max.idle.ms": {
        "connection.failed.authentication.delay.ms": "1001",
        "connections.max.idle.ms": "1000",
    },
    "connection.failed.authentication.delay.ms equal to connections.max.idle.ms": {
        "connection.failed.authentication.delay.ms": "1000",
        "connections.max.idle.ms": "1000",
    },
    "early.start.listeners=EXTERNAL, inter-broker listener INTERNAL": {
        "listeners": "EXTERNAL://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "early.start.listeners": "EXTERNAL",
    },
}
LISTENERS = {
    "security.inter.broker.protocol and inter.broker.listener.name both": {
        "security.inter.broker.protocol": "PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    },
    "inter.broker.listener.name not among the listeners": {"inter.broker.listener.name": "NOSUCH"},
    "inter.broker.listener.name in the protocol map but not a listener": {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    },
    "security.inter.broker.protocol=SSL without such a listener": {"security.inter.broker.protocol": "SSL"},
    "security.inter.broker.protocol=FOO": {"security.inter.broker.protocol": "FOO"},
    "listener name without a security protocol": {"listeners": "EXTERNAL://127.0.0.1:0"},
    "listener.security.protocol.map with unknown protocol": {"listener.security.protocol.map": "PLAINTEXT:FOO"},
    "sasl.login.class=no.Such": {"sasl.login.class": "no.Such"},
}
"""Rows of the area sasl that are not about one mechanism."""
OURS = {
    # these would have no effect, or only seem to have one
    "quota.producer.default=1000": "refuses",
    "max.connections.per.ip.overrides=127.0.0.1:-1": "refuses",
    "max.connections.per.ip.overrides=:5": "refuses",
    "password.encoder.cipher.algorithm='FOO'": "refuses",
    "password.encoder.keyfactory.algorithm='FOO'": "refuses",
    "no.such.property='1'": "refuses",
    "listener.name.nosuch.ssl.client.auth='foo'": "refuses",
    "security.providers='no.Such'": "refuses",
    # refused a moment later, when the listeners are bound: test_setting_effects_network.py
    "max.connections.per.ip.overrides=no.such.invalid:5": "starts",
}
"""Where Ottla differs from Kafka on purpose."""


def rows():
    with (REFERENCE / "security" / "start-up.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            name = row["configuration"]
            is_of_zookeeper = name.startswith(("zookeeper.", "authorizer.zookeeper."))
            if name in LISTENERS or (row["area"] in AREAS and not is_of_zookeeper):
                yield pytest.param(row["area"], name, OURS.get(name, row["result"]), id=name)


def settings_of(area, configuration):
    """The settings of a row: `name=value`, or those above."""
    found = CONFIGURATIONS.get(configuration) or LISTENERS.get(configuration)
    if found is None:
        name, _, value = configuration.partition("=")
        found = {name: value.strip("'")}
    is_about_acls = area == "authorizer" and not configuration.endswith("without authorizer")
    return (AUTHORIZER if is_about_acls else {}) | found


@pytest.mark.parametrize(("area", "configuration", "result"), list(rows()))
def test_a_configuration_starts_or_refuses_like_kafka(tmp_path, area, configuration, result):
    values = settings(tmp_path / "data") | settings_of(area, configuration)
    if result == "starts":
        BrokerConfig.load(None, values)
        return
    with pytest.raises(ConfigError):
        BrokerConfig.load(None, values)
