"""BrokerConfig: where values come from, what is refused, what is warned about, and what is derived."""

import re
from pathlib import Path

import pytest

from broker.network.listener import Listener
from broker.settings.catalog import ACTED_ON, BROKER_SETTINGS, KAFKA_SETTINGS
from broker.settings.config import BrokerConfig
from broker.settings.names import misspelled
from protocol.classic_names import CLASSIC_NAMES, Reader, advice
from registry.zookeeper.settings import SETTING_NAMES
from security.jaas import PLAIN_MODULE
from storage.setting import ConfigError

HOUR_MS = 3_600_000

SPECIMENS = {
    "group.consumer.assignors": ("range,org.apache.kafka.coordinator.group.assignor.UniformAssignor", "cleverest"),
    "advertised.listeners": ("PLAINTEXT://example.org:9092", "example.org:9092"),
    "broker.id": ("1000", "1001"),
    "broker.id.generation.enable": ("true", "maybe"),
    "broker.rack": ("rack-a", None),
    "compression.gzip.level": ("9", "0"),
    "authorizer.class.name": ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"),
    "connections.max.idle.ms": ("1000", "soon"),
    "inter.broker.listener.name": ("plaintext", "INSIDE"),
    "ottla.console.mode": ("read-only", "half"),
    "listener.security.protocol.map": ("PLAINTEXT:PLAINTEXT,A:PLAINTEXT", "PLAINTEXT:TLS"),
    "listeners": ("PLAINTEXT://127.0.0.1:0", "127.0.0.1:0"),
    "log.cleaner.dedupe.buffer.size": ("2000000", "much"),
    "log.cleanup.policy": ("compact,delete", "compact,remove"),
    "log.dir": ("/a", ""),
    "log.dirs": ("/a,/b", "/a,/a"),
    "log.message.timestamp.type": ("LogAppendTime", "Now"),
    "log.retention.bytes": ("-1", "much"),
    "log.retention.hours": ("1", "0"),
    "log.retention.minutes": ("1", "0"),
    "log.retention.ms": ("-1", "0"),
    "log.roll.jitter.ms": ("0", "-1"),
    "log.roll.ms": ("1", "0"),
    "max.connections.per.ip.overrides": ("127.0.0.1:5,::1:6,host.example:7", "not a host:5"),
    "node.id": ("7", "-2"),
    "ottla.authorizer": ("my_package.access:Mine", None),
    "ottla.console.authentication": ("scram", "basic"),
    "ottla.console.hosts": ("kafka.example.org", None),
    "ottla.console.listener": ("127.0.0.1:0", "127.0.0.1"),
    "ottla.console.open": ("metrics", "all"),
    "ottla.console.password.file": ("", "/console-users"),
    "ottla.console.token.file": ("", "/console-tokens"),
    "ottla.zookeeper.legacy07.chroot": ("", "/brokers/old"),
    "offsets.commit.required.acks": ("1", "2"),
    "offsets.topic.compression.codec": ("4", "5"),
    "password.encoder.cipher.algorithm": ("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"),
    "password.encoder.iterations": ("1000000", "1000001"),
    "password.encoder.key.length": ("256", "8"),
    "password.encoder.keyfactory.algorithm": ("PBKDF2WithHmacSHA256", "FOO"),
    "password.encoder.old.secret": ("x", None),
    "password.encoder.secret": ("x", None),
    "queued.max.request.bytes": ("-1", "5"),
    "replica.lag.time.max.ms": ("501", "soon"),
    "replica.selector.class": ("org.apache.kafka.common.replica.RackAwareReplicaSelector", "com.example.Selector"),
    "replica.socket.timeout.ms": ("501", "soon"),
    "reserved.broker.max.id": ("5", "-1"),
    "delegation.token.master.key": ("text", None),
    "delegation.token.secret.key": ("text", None),
    "sasl.enabled.mechanisms": ("PLAIN", None),
    "sasl.jaas.config": ("text", None),
    "sasl.oauthbearer.expected.audience": ("a,b", None),
    "sasl.oauthbearer.expected.issuer": ("us", None),
    "sasl.oauthbearer.jwks.endpoint.url": ("file:///jwks.json", None),
    "sasl.mechanism.inter.broker.protocol": ("PLAIN", None),
    "sasl.oauthbearer.scope.claim.name": ("scp", None),
    "sasl.kerberos.principal.to.local.rules": ("RULE:[1:$1],DEFAULT", None),  # see sasl_settings for the bad ones
    "sasl.kerberos.service.name": ("kafka", None),
    "sasl.oauthbearer.sub.claim.name": ("email", None),
    "sasl.oauthbearer.token.endpoint.url": ("https://login.example.org/token", None),
    "sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "com.example.Handler",
    ),
    "ottla.console.schema.registry.basic.auth.user.info": ("", None),  # see test_setting_effects_console.py
    "ottla.console.schema.registry.url": ("http://127.0.0.1:8081", "ftp://127.0.0.1"),
    "ottla.inter.broker.listener.names": ("PLAINTEXT", "FORMER"),
    "super.users": ("", None),
    "security.inter.broker.protocol": ("PLAINTEXT", "SASL_SSL"),
    "zookeeper.connect": ("localhost:2181,other/kafka", "localhost:2181:1"),
}


def specimens(name):
    """A good and a bad text for a setting; the bad one is None where every text is good."""
    if name in SPECIMENS:
        return SPECIMENS[name]
    setting = BROKER_SETTINGS[name]
    if setting.validator is not None:
        bad = {"INT": "-200000", "SHORT": "-2000", "LONG": "-3", "DOUBLE": "-1"}.get(setting.type.name, "unheard-of")
        return setting.default_text or "5", bad
    if name.startswith("ssl.") and setting.type.name != "BOOLEAN":  # see tests/broker/network/test_listener_tls.py
        return setting.default_text or "x", None
    if name in SETTING_NAMES and setting.type.name != "BOOLEAN":  # see tests/registry/zookeeper/test_settings.py
        return setting.default_text or "", None
    return {"BOOLEAN": ("false", "maybe"), "INT": ("5", "five"), "LONG": ("5", "five"), "DOUBLE": ("0.5", "half")}[
        setting.type.name
    ]


@pytest.mark.parametrize("name", sorted(ACTED_ON - {"control.plane.listener.name"}))  # it needs a second listener
def test_every_setting_that_acts_takes_good_values_and_refuses_bad_ones(name):
    good, bad = specimens(name)
    config = BrokerConfig({name: good})
    assert config.value(name) == BROKER_SETTINGS[name].parse(good)
    assert config.warnings == []
    if bad is None:
        return
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name: bad})
    assert caught.value.name == name
    assert caught.value.rule in str(caught.value)
    if bad:
        assert str(caught.value).startswith(f"{name}={bad}: ")


@pytest.mark.parametrize("name", sorted(KAFKA_SETTINGS.keys() - ACTED_ON))
def test_every_other_setting_is_accepted_with_its_default_and_warned_about(name):
    setting = KAFKA_SETTINGS[name]
    text = setting.default_text
    if text is None:
        text = "5" if setting.type.name in ("INT", "LONG") else ""
        if setting.validator is not None and setting.validator.text == "non-empty string":
            text = "x"
    config = BrokerConfig({name: text})
    assert len(config.warnings) == 1
    assert config.warnings[0].startswith(f"{name}=")
    assert config.warnings[0].endswith("has no effect in Ottla yet")


@pytest.mark.parametrize("name", sorted(CLASSIC_NAMES.keys() - BROKER_SETTINGS.keys()))
def test_classic_names_are_refused_with_what_to_do_instead(name):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name: "some"})
    reasons = "this name is not read any more", "not a setting of brokers"
    assert str(caught.value) in {f"{name}=some: {why}: {advice(name, Reader.BROKER)}" for why in reasons}


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("log.retention.policy port zk.synctime.ms quota.producer.default", "this name is not read any more"),
        ("request.required.acks groupid topic.log.file.size", "not a setting of brokers"),
        ("producer.type buffer.size event.handler.props zk.read.num.retries", "not a setting of brokers"),
        ("consumer.timeout.ms num.consumer.fetchers socket.buffersize", "not a setting of brokers"),
        ("compression.codec send.buffer.bytes receive.buffer.bytes", "not a setting of brokers"),
    ],
)
def test_a_classic_name_is_refused_with_the_true_reason(names, why):
    for name in names.split():
        with pytest.raises(ConfigError, match=f"^{re.escape(name)}=1: {why}: "):
            BrokerConfig({name: "1"})


@pytest.mark.parametrize(
    ("name", "today"),
    [
        ("log.retention.policy", "log.cleanup.policy"),
        ("request.required.acks", "acks"),
        ("fetch.message.max.bytes", "fetch.max.bytes"),
        ("log.file.size", "log.segment.bytes"),
        ("brokerid", "broker.id"),
        ("port", "listeners"),
        ("log.cleanup.interval.mins", "log.retention.check.interval.ms"),
        ("zk.connect", "zookeeper.connect"),
        ("log.flush.interval", "log.flush.interval.messages"),
        ("max.socket.request.bytes", "socket.request.max.bytes"),
        ("log.retention.size", "log.retention.bytes"),
    ],
)
def test_classic_names_are_mapped_to_current_names(name, today):
    assert today in advice(name, Reader.BROKER)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("num.partition", "; the nearest is num.partitions"),
        ("log.segment.byte", "; the nearest is log.segment.bytes"),
        ("ottla.console", "; the nearest is ottla.console.open"),
        ("ottla.produce.validate", "; the nearest is ottla.produce.validation"),
        ("log_dirs", "; the nearest is log.dirs"),
        ("Auto-Create-Topics-Enable", "; the nearest is auto.create.topics.enable"),
        ("borker.id", "; the nearest is broker.id"),
        ("log.retention.hrs", "; the nearest is log.retention.hours"),
        ("logs.dir", "; the nearest is log.dir"),
        ("ottla.foo", ""),
        ("", ""),
    ],
)
def test_names_that_hide_a_mistake_are_refused_with_the_most_similar_name(tmp_path, name, hint):
    path = tmp_path / "server.properties"
    path.write_text(f"{name}=1\n")
    for load in (lambda: BrokerConfig({name: "1"}), lambda: BrokerConfig.load(path)):
        with pytest.raises(ConfigError) as caught:
            load()
        assert str(caught.value) == f"{name}=1: no setting has this name{hint}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("xyzzy", ""),
        ("confluent.license.topic", ""),
        (
            "confluent.transaction.state.log.replication.factor",
            "; the nearest is transaction.state.log.replication.factor",
        ),
        ("cruise.control.metrics.reporter.bootstrap.servers", ""),
        ("group.streams.heartbeat.interval.ms", "; the nearest is group.share.heartbeat.interval.ms"),
        ("log.cleaner.min.cleanable.dirty.ratio", "; the nearest is log.cleaner.min.cleanable.ratio"),
    ],
)
def test_other_unknown_names_are_one_warning_if_they_are_in_a_file(tmp_path, name, hint):
    path = tmp_path / "server.properties"
    path.write_text(f"{name}=secret\n")
    expected = f"no setting is named {name}: it has no effect{hint}"
    assert BrokerConfig.load(path).warnings == [f"{path}: {expected}"]
    for load in (lambda: BrokerConfig({name: "1"}), lambda: BrokerConfig.load(path, {name: "1"})):
        with pytest.raises(ConfigError) as caught:
            load()
        assert str(caught.value) == f"{name}=1: no setting has this name{hint}"


def test_names_of_other_settings_are_not_taken_for_typing_errors():
    """What a later Kafka adds is as far from today's names as these are from each other."""
    for name in BROKER_SETTINGS:
        others = {other: setting for other, setting in BROKER_SETTINGS.items() if other != name}
        near = misspelled(name, others)
        if near is not None:
            words = set(name.split(".")) ^ set(near.split("."))
            assert words in ({"min", "max"}, {"dir", "dirs"}, {"dn", "san"})


def test_a_topics_setting_is_refused_with_the_brokers_name():
    with pytest.raises(ConfigError, match=r"segment\.bytes=1: .*not of a broker: use log\.segment\.bytes"):
        BrokerConfig({"segment.bytes": "1"})
    with pytest.raises(ConfigError, match=r"retention\.ms=1: .*use log\.retention\.ms"):
        BrokerConfig({"retention.ms": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client.quota.callback.class", "org.example.Callback"),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("authorizer.zookeeper.url", "other:2181"),
        ("zookeeper.ssl.crl.enable", "true"),
        ("zookeeper.ssl.ocsp.enable", "true"),
        ("process.roles", "broker"),
        ("controller.listener.names", "CONTROLLER"),
        ("zookeeper.metadata.migration.enable", "true"),
        ("remote.log.storage.system.enable", "true"),
        ("principal.builder.class", "org.example.Builder"),
        ("sasl.client.callback.handler.class", "org.example.Handler"),
        ("sasl.login.callback.handler.class", "org.example.Handler"),
        ("sasl.login.class", "org.example.Login"),
        ("listener.name.a.gssapi.sasl.login.class", "org.example.Login"),
        ("listener.name.a.principal.builder.class", "org.example.Builder"),
        ("security.providers", "org.example.FipsProvider"),
    ],
)
def test_security_settings_without_effect_are_refused(name, value):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name: value})
    assert caught.value.name == name
    assert any(
        why in str(caught.value) for why in ("not there", "supported", "cannot be used", "must be kafka.security")
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.client.callback.handler.class", "authenticator.SaslClientCallbackHandler"),
        ("sasl.login.callback.handler.class", "oauthbearer.secured.OAuthBearerLoginCallbackHandler"),
        ("sasl.login.class", "kerberos.KerberosLogin"),
        ("listener.name.a.gssapi.sasl.login.class", "authenticator.DefaultLogin"),
    ],
)
def test_the_login_classes_of_kafka_are_accepted(name, value):
    BrokerConfig({name: f"org.apache.kafka.common.security.{value}"})


def test_a_listener_name_may_be_mapped_to_tls():
    protocols = "INSIDE:PLAINTEXT,OUTSIDE:SSL"
    listeners = {"listeners": "INSIDE://:1,OUTSIDE://:2", "listener.security.protocol.map": protocols}
    config = BrokerConfig(listeners | {"inter.broker.listener.name": "INSIDE"})
    assert [one.security_protocol for one in config.listeners] == ["PLAINTEXT", "SSL"]


def test_the_prefix_of_a_listener_may_be_in_upper_case():
    config = BrokerConfig({"listener.name.OUTSIDE.ssl.client.auth": "required"})
    assert config.of_listener("OUTSIDE").value("ssl.client.auth") == "required"


@pytest.mark.parametrize("name", ["ssl.key.password", "listener.name.a.plain.sasl.jaas.config"])
def test_refused_passwords_are_not_shown(name):
    values = {"listeners": "PLAINTEXT://:1,A://:2", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:SASL_SSL"}
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(values | {"listener.name.a.sasl.enabled.mechanisms": "PLAIN", name: "hush"})
    assert "hush" not in str(caught.value)


def test_passwords_are_not_shown_in_warnings():
    values = dict.fromkeys(("ssl.key.password", "sasl.jaas.config", "listener.name.a.ssl.key.password"), "hush")
    assert "hush" not in repr(BrokerConfig(values).warnings)


def test_listener_prefixed_names_are_accepted_with_a_warning():
    config = BrokerConfig({"listener.name.plaintext.sasl.kerberos.kinit.cmd": "/k"})
    assert config.warnings == ["listener.name.plaintext.sasl.kerberos.kinit.cmd has no effect in Ottla yet"]


def test_settings_of_a_listener_that_does_not_exist_cause_a_warning():
    config = BrokerConfig({"listener.name.outside.ssl.client.auth": "required"})
    (warning,) = config.warnings
    assert warning == (
        "listener.name.outside.ssl.client.auth has no effect: OUTSIDE is not among the listeners (PLAINTEXT)"
    )


@pytest.mark.parametrize(
    ("protocol", "without"),
    [
        ("PLAINTEXT", {"ssl.client.auth": "TLS", "plain.sasl.jaas.config": "SASL", "sasl.enabled.mechanisms": "SASL"}),
        ("SSL", {"plain.sasl.jaas.config": "SASL", "sasl.enabled.mechanisms": "SASL"}),
        ("SASL_PLAINTEXT", {"ssl.client.auth": "TLS"}),
        ("SASL_SSL", {}),
    ],
)
def test_settings_of_a_listener_without_tls_or_sasl_cause_warnings(protocol, without):
    """Kafka starts with them, without a warning."""
    values = {"ssl.client.auth": "none", "sasl.enabled.mechanisms": "PLAIN"}
    values["plain.sasl.jaas.config"] = f'{PLAIN_MODULE} required user_alice="hush";'
    protocols = f"PLAINTEXT:PLAINTEXT,A:{protocol}"
    listener = {"listeners": "PLAINTEXT://:1,A://:2", "listener.security.protocol.map": protocols}
    config = BrokerConfig(listener | {f"listener.name.a.{name}": value for name, value in values.items()})
    assert sorted(config.warnings) == sorted(
        f"listener.name.a.{name} has no effect: the listener A is {protocol}, without {what}"
        for name, what in without.items()
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("listener.name.plaintext.ssl.client.auht", "listener.name.plaintext.ssl.client.auth"),
        ("listener.name.plaintext.ssl_client_auth", "listener.name.plaintext.ssl.client.auth"),
        ("listener.name.a.plain.connection.max.reauth.ms", "listener.name.a.plain.connections.max.reauth.ms"),
    ],
)
def test_typing_errors_behind_the_prefix_of_a_listener_are_refused(name, meant):
    with pytest.raises(ConfigError, match=f"nearest is {meant}$") as caught:
        BrokerConfig({name: "hush"})
    assert caught.value.name == name
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"broker.id": "1", "node.id": "2"}, "node.id"),
        ({"broker.id": "-1", "broker.id.generation.enable": "false"}, "broker.id"),
        ({"broker.id.generation.enable": "false"}, "broker.id"),
        ({"broker.id": "2000"}, "broker.id"),
        ({"node.id": "2000"}, "node.id"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        ({"advertised.listeners": ""}, "advertised.listeners"),
        ({"listeners": ""}, "listeners"),
        (
            {
                "advertised.listeners": "PLAINTEXT://a:1,B://b:1",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
            },
            "advertised.listeners",
        ),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "inter.broker.listener.name",
        ),
        (
            {"listeners": "A://:1", "listener.security.protocol.map": "A:PLAINTEXT"},
            "inter.broker.listener.name",
        ),
        ({"queued.max.request.bytes": "5", "socket.request.max.bytes": "6"}, "queued.max.request.bytes"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip"),
        ({"connections.max.idle.ms": "100"}, "connection.failed.authentication.delay.ms"),
        ({"log.dirs": " , "}, "log.dirs"),
        ({"log.retention.hours": "0"}, "log.retention.hours"),
        ({"log.retention.minutes": "0", "log.retention.hours": "7"}, "log.retention.minutes"),
        ({"replica.fetch.wait.max.ms": "40000"}, "replica.fetch.wait.max.ms"),
        ({"replica.lag.time.max.ms": "400"}, "replica.fetch.wait.max.ms"),
        ({"log.cleaner.threads": "200"}, "log.cleaner.dedupe.buffer.size"),
        ({"group.consumer.session.timeout.ms": "70000"}, "group.consumer.session.timeout.ms"),
        ({"offsets.topic.compression.codec": "5"}, "offsets.topic.compression.codec"),
        ({"offsets.commit.required.acks": "2"}, "offsets.commit.required.acks"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "group.coordinator.rebalance.protocols"),
        (
            {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
            "log.cleaner.min.compaction.lag.ms",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given, name):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(given)
    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name}=")


@pytest.mark.parametrize(
    "given",
    [
        {"broker.id": "2000", "broker.id.generation.enable": "false"},
        {"broker.id": "5", "node.id": "5"},
        {"connections.max.idle.ms": "-1"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:9"},
        {"listeners": "PLAINTEXT://0.0.0.0:1", "advertised.listeners": "PLAINTEXT://host:1"},
        {"queued.max.request.bytes": "0"},
    ],
)
def test_settings_that_must_be_set_together(given):
    BrokerConfig(given)


def test_sizes_below_the_largest_message_are_warned_about_with_both_names():
    assert BrokerConfig({}).warnings == []
    assert BrokerConfig({"log.segment.bytes": "1000000"}).warnings == [
        "log.segment.bytes (1000000) is smaller than message.max.bytes (1048588)"
    ]
    assert "replica.fetch.max.bytes (1048576) is smaller than message.max.bytes (2000000)" in (
        BrokerConfig({"message.max.bytes": "2000000"}).warnings
    )
    assert any(
        "replica.fetch.max.bytes (5)" in warning for warning in BrokerConfig({"replica.fetch.max.bytes": "5"}).warnings
    )


def test_without_a_file_the_broker_is_reachable_from_this_machine_only(tmp_path):
    config = BrokerConfig.load(data_dir=tmp_path)
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.advertised_listeners == config.listeners
    assert config.log_dirs == (tmp_path,)
    assert config.broker_id == 0
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.ottla_console_listener == ("127.0.0.1", 8080)
    assert config.warnings == []


def test_with_a_file_kafkas_defaults_apply(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\n")
    config = BrokerConfig.load(path, data_dir=tmp_path)
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.log_dirs == (Path("/tmp/kafka-logs"),)
    assert config.broker_id == -1
    assert config.num_partitions == 3


@pytest.mark.parametrize(
    ("environment", "file", "overrides", "port"),
    [
        ({}, "", {}, -1),
        ({"JMX_PORT": ""}, "", {}, -1),
        ({"JMX_PORT": " "}, "", {}, -1),
        ({"JMX_PORT": "9999"}, "", {}, 9999),
        ({"JMX_PORT": "9999"}, "ottla.jmx.port=6061", {}, 6061),
        ({"JMX_PORT": "9999"}, "ottla.jmx.port=6061", {"ottla.jmx.port": "-1"}, -1),
        ({"JMX_PORT": "none"}, "ottla.jmx.port=6061", {}, 6061),
    ],
)
def test_the_jmx_port_comes_from_the_environment_unless_it_is_set(tmp_path, environment, file, overrides, port):
    path = tmp_path / "server.properties"
    path.write_text(file)
    assert BrokerConfig.load(path, overrides, environment=environment).ottla_jmx_port == port


@pytest.mark.parametrize("text", ["none", "65536", "-2"])
def test_a_bad_jmx_port_in_the_environment_is_refused(text):
    with pytest.raises(ConfigError, match=f"^JMX_PORT={text}: "):
        BrokerConfig.load(environment={"JMX_PORT": text})


def test_overrides_win_over_the_file(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\nlog.dirs=/a\nbroker.id=4\n")
    config = BrokerConfig.load(path, {"num.partitions": "5"})
    assert (config.num_partitions, config.log_dirs, config.broker_id) == (5, (Path("/a"),), 4)
    assert config.static == {"num.partitions": "5", "log.dirs": "/a", "broker.id": "4"}


def test_a_single_broker_defaults_to_one_replica_and_no_rebalance_delay():
    config = BrokerConfig({})
    assert config.offsets_topic_replication_factor == 1
    assert config.transaction_state_log_replication_factor == 1
    assert config.transaction_state_log_min_isr == 1
    assert config.group_initial_rebalance_delay_ms == 0
    assert BrokerConfig({"offsets.topic.replication.factor": "3"}).offsets_topic_replication_factor == 3


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({"log.retention.hours": "2"}, "log_retention_ms", 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "log_retention_ms", 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, "log_retention_ms", 4),
        ({"log.retention.hours": "-1"}, "log_retention_ms", -1),
        ({"log.retention.ms": "-7"}, "log_retention_ms", -1),
        ({"log.roll.hours": "2"}, "log_roll_ms", 2 * HOUR_MS),
        ({"log.roll.hours": "2", "log.roll.ms": "5"}, "log_roll_ms", 5),
        ({"log.roll.jitter.hours": "2"}, "log_roll_jitter_ms", 2 * HOUR_MS),
        ({"log.roll.jitter.hours": "2", "log.roll.jitter.ms": "5"}, "log_roll_jitter_ms", 5),
        ({"log.flush.scheduler.interval.ms": "6"}, "log_flush_interval_ms", 6),
        ({"log.flush.scheduler.interval.ms": "6", "log.flush.interval.ms": "5"}, "log_flush_interval_ms", 5),
        ({"log.message.timestamp.difference.max.ms": "6"}, "log_message_timestamp_before_max_ms", 6),
        ({"log.message.timestamp.difference.max.ms": "6"}, "log_message_timestamp_after_max_ms", 6),
        ({"log.dir": "/a", "log.dirs": "/b, /c"}, "log_dirs", (Path("/b"), Path("/c"))),
        ({"log.dir": "/a,/b"}, "log_dirs", (Path("/a"), Path("/b"))),
        ({"node.id": "7"}, "broker_id", 7),
        ({"ottla.console.listener": ""}, "ottla_console_listener", None),
        ({"ottla.console.listener": "[::1]:80"}, "ottla_console_listener", ("::1", 80)),
        (
            {"max.connections.per.ip.overrides": "127.0.0.1:1, 0:0:0:0:0:0:0:1:2"},
            "max_connections_per_ip_overrides",
            {"127.0.0.1": 1, "::1": 2},
        ),
        ({"inter.broker.listener.name": "plaintext"}, "inter_broker_listener_name", "PLAINTEXT"),
    ],
)
def test_derived_values(given, attribute, value):
    assert getattr(BrokerConfig(given), attribute) == value


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({"log.segment.bytes": "4096"}, "segment_bytes", 4096),
        ({"log.retention.minutes": "1"}, "retention_ms", 60_000),
        ({"log.roll.hours": "1"}, "segment_ms", HOUR_MS),
        ({"log.flush.scheduler.interval.ms": "5"}, "flush_ms", 5),
        ({"message.max.bytes": "5"}, "max_message_bytes", 5),
        ({"min.insync.replicas": "2"}, "min_insync_replicas", 2),
        ({"log.cleanup.policy": "compact"}, "cleanup_policy", frozenset({"compact"})),
        ({"log.segment.delete.delay.ms": "1"}, "file_delete_delay_ms", 1),
        ({"compression.type": "zstd"}, "compression_type", "zstd"),
        ({"log.message.format.version": "0.10.0"}, "message_format_version", "3.0-IV1"),
    ],
)
def test_topics_inherit_the_brokers_settings_unless_they_override_them(given, attribute, value):
    config = BrokerConfig(given)
    assert getattr(config.log_config(), attribute) == value
    assert config.log_config({"segment.bytes": "77"}).segment_bytes == 77


def test_a_generated_id_survives_dynamic_changes():
    config = BrokerConfig({})
    config.assign_broker_id(1001)
    assert config.broker_id == 1001
    assert config.with_dynamic({"message.max.bytes": "5"}).broker_id == 1001
