"""Settings in environment variables: their names, what overrides them, what is refused, warned about and ignored."""

import pytest

from broker.settings.catalog import BROKER_SETTINGS
from broker.settings.config import BrokerConfig
from broker.settings.environment import environment_settings, variable_of
from storage.setting import ConfigError
from support.broker import BrokerProcess


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("KAFKA_BROKER_ID", "broker.id"),
        ("KAFKA_OTTLA_LOG_FORMAT", "ottla.log.format"),
        ("OTTLA_LOG_FORMAT", "ottla.log.format"),
        ("OTTLA_CONSOLE_LISTENER", "ottla.console.listener"),
        ("OTTLA_CONSOLE_SSL_KEYSTORE_LOCATION", "ottla.console.ssl.keystore.location"),
        ("OTTLA_JMX_PORT", "ottla.jmx.port"),
        ("OTTLA_LOG_DIRS", "log.dirs"),
        ("KAFKA_LISTENER_NAME_INTERNAL_SASL_PLAIN__X___Y", "listener.name.internal.sasl.plain_x-y"),
        ("OTTLA_LISTENER_NAME_A_B", "listener.name.a.b"),
    ],
)
def test_a_variable_is_a_setting(variable, name):
    found = environment_settings({variable: "1"})
    assert (found.values, found.variables, found.warnings) == ({name: "1"}, {name: variable}, [])


def test_every_setting_has_a_variable():
    for name in BROKER_SETTINGS:
        assert environment_settings({variable_of(name): "v"}).values == {name: "v"}


@pytest.mark.parametrize("name", ["a.b_c-d", "ottla.a.b"])
def test_separators_are_kept(name):
    assert variable_of(name) in ("KAFKA_A_B__C___D", "OTTLA_A_B")


def test_precedence(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nbroker.id=2\nlog.retention.hours=2\nmin.insync.replicas=2\n")
    environment = {
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_BROKER_ID": "3",
        "KAFKA_LOG_RETENTION_HOURS": "3",
        "OTTLA_NUM_PARTITIONS": "4",
    }
    config = BrokerConfig.load(path, {"broker.id": "5"}, environment=environment)
    assert (config.num_partitions, config.broker_id, config.min_insync_replicas) == (4, 5, 2)
    assert config.log_retention_ms == 3 * 3_600_000
    assert BrokerConfig.load(path, {"broker.id": "5"}).num_partitions == 2  # a program that embeds a broker


def test_an_empty_variable_is_an_empty_value():
    assert BrokerConfig.load(environment={"OTTLA_CONSOLE_LISTENER": ""}).ottla_console_listener is None


OF_OTHERS = """
KAFKA_HEAP_OPTS KAFKA_OPTS KAFKA_JMX_OPTS KAFKA_JMX_PORT KAFKA_JMX_HOSTNAME KAFKA_LOG4J_OPTS KAFKA_LOG4J_LOGGERS
KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_TOOLS_LOG4J_LOGLEVEL KAFKA_JVM_PERFORMANCE_OPTS KAFKA_GC_LOG_OPTS KAFKA_HOME
KAFKA_VERSION KAFKA_DEBUG KAFKA_MODE OTTLA_BOOTSTRAP_SERVER OTTLA_DEBUG OTTLA_ZOOKEEPER OTTLA_ZOOKEEPER_JARS
KAFKA_SERVICE_HOST KAFKA_SERVICE_PORT KAFKA_SERVICE_PORT_CLIENTS KAFKA_PORT_9092_TCP KAFKA_PORT_9092_TCP_ADDR
OTTLA_SERVICE_HOST OTTLA_PROFILE OTTLA_CONFIG KAFKAESQUE JMX_PORT PATH
"""


@pytest.mark.parametrize("variable", OF_OTHERS.split())
def test_variables_of_other_programs_are_ignored(variable):
    assert environment_settings({variable: "none"}) == ({}, {}, [])


@pytest.mark.parametrize("variable", ["KAFKA_PORT", "OTTLA_PORT"])
def test_a_port_is_ignored_only_if_it_is_a_service_link(variable):
    assert environment_settings({variable: "tcp://10.0.0.1:9092"}) == ({}, {}, [])
    with pytest.raises(ConfigError, match=f"^{variable}: port: .*listeners"):
        environment_settings({variable: "9092"})


@pytest.mark.parametrize("variable", ["KAFKA_BOOTSTRAP_SERVERS", "KAFKA_GROUP_ID", "KAFKA_USER", "OTTLA_SEED"])
def test_other_variables_are_one_warning_without_their_value(variable):
    warning = f"the environment variable {variable} is not a setting of a broker: it has no effect"
    assert environment_settings({variable: "secret"}) == ({}, {}, [warning])
    assert BrokerConfig.load(environment={variable: "secret"}).warnings == [warning]


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        (
            "KAFKA_LOG_RETENTION_HOUR",
            "log.retention.hour: no setting has this name; the nearest is",
        ),
        ("OTTLA_LOG_DIRZ", "log.dirz: no setting has this name; the nearest is log.dir"),
        ("OTTLA_CONSOLE_LISTENR", "no setting is named ottla.console.listenr; the nearest is OTTLA_CONSOLE_LISTENER"),
        ("KAFKA_RETENTION_MS", "retention.ms: a setting of topics, not of a broker: use log.retention.ms"),
        ("KAFKA_ADVERTISED_HOST_NAME", "advertised.host.name: this name is not read any more: .*advertised.listeners"),
    ],
)
def test_mistakes_are_refused_with_the_variable_and_without_its_value(variable, why):
    with pytest.raises(ConfigError, match=f"^{variable}: {why}") as caught:
        BrokerConfig.load(environment={variable: "secret"})
    assert "secret" not in str(caught.value)


def test_a_bad_value_names_the_variable(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\n")
    environment = {"KAFKA_NUM_PARTITIONS": "many"}
    with pytest.raises(ConfigError, match=r"^num.partitions=many: .* \(the environment sets KAFKA_NUM_PARTITIONS\)$"):
        BrokerConfig.load(path, environment=environment)
    assert BrokerConfig.load(path, {"num.partitions": "3"}, environment=environment).num_partitions == 3


def test_a_broker_process_reads_its_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "many")
    broker = BrokerProcess(tmp_path / "data", {"num.partitions": "3"}).start()
    assert broker.stop() == 0
    monkeypatch.setenv("KAFKA_NUM_NETWORK_THREADS", "5")
    monkeypatch.setenv("KAFKA_SOMETHING", "5")
    assert broker.start().stop() == 0
    assert "num.network.threads=5 has no effect" in broker.log_text()
    assert "the environment variable KAFKA_SOMETHING is not a setting" in broker.log_text()
