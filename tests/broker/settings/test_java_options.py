"""The login to ZooKeeper that Kafka's operators give with KAFKA_OPTS."""

import pytest

from broker.settings.config import BrokerConfig
from broker.settings.java_options import zookeeper_login
from security.jaas import PLAIN_MODULE, ZOOKEEPER_MODULE
from storage.setting import ConfigError

JAAS_CONFIG = "-Djava.security.auth.login.config"
SETTINGS = ("ottla.zookeeper.sasl.jaas.file", "ottla.zookeeper.sasl.clientconfig")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "jaas.conf"
    login = f"{ZOOKEEPER_MODULE} required username=kafka password=hush;"
    path.write_text(f"KafkaServer {{ {PLAIN_MODULE} required; }};\nClient {{ {login} }};\nMine {{ {login} }};\n")
    return path


@pytest.mark.parametrize("form", ["{}", "={}", "file:{}"])
def test_a_file_with_the_section(file, form):
    options = f"-Xmx1g {JAAS_CONFIG}={form.format(file)} -Dzookeeper.sasl.client=true"
    assert zookeeper_login({"KAFKA_OPTS": options}, {}) == {SETTINGS[0]: str(file), SETTINGS[1]: "Client"}


def test_another_section(file):
    options = f"{JAAS_CONFIG}={file} -Dzookeeper.sasl.clientconfig=Mine"
    assert zookeeper_login({"KAFKA_OPTS": options}, {})[SETTINGS[1]] == "Mine"


def test_another_service_of_kerberos(file):
    name = "ottla.zookeeper.sasl.client.username"
    environment = {"KAFKA_OPTS": f"{JAAS_CONFIG}={file} -Dzookeeper.sasl.client.username=zk"}
    assert zookeeper_login(environment, {})[name] == "zk"
    assert name not in zookeeper_login(environment, {name: "mine"})


def test_without_a_login(file):
    assert zookeeper_login({}, {}) == {}
    assert zookeeper_login({"KAFKA_OPTS": "-Xmx1g -Djava.net.preferIPv4Stack"}, {}) == {}
    file.write_text("KafkaServer { x required; };")
    assert zookeeper_login({"KAFKA_OPTS": f"{JAAS_CONFIG}={file} -Dzookeeper.sasl.client=false"}, {}) == {}


@pytest.mark.parametrize("name", ["ottla.zookeeper.sasl.jaas.config", "ottla.zookeeper.sasl.jaas.file"])
def test_settings_win(name):
    assert zookeeper_login({"KAFKA_OPTS": f"{JAAS_CONFIG}=/nowhere"}, {name: "x"}) == {}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (f"{JAAS_CONFIG}=/nowhere", "cannot be read"),
        (f"{JAAS_CONFIG}={{file}} -Dzookeeper.sasl.clientconfig=Other", "has no section Other"),
        (f"{JAAS_CONFIG}={{file}} -Dzookeeper.sasl.client=false", "zookeeper.sasl.client is false"),
        (f"{JAAS_CONFIG}='{{file}}'", "cannot be read"),  # the scripts of Kafka do not remove quotation marks
        ("-Dzookeeper.client.secure=true", "use zookeeper.ssl.client.enable"),
    ],
)
def test_what_kafka_does_not_start_with_either(file, options, rule):
    with pytest.raises(ConfigError, match=rule) as caught:
        zookeeper_login({"KAFKA_OPTS": options.format(file=file)}, {})
    assert caught.value.name == "KAFKA_OPTS"
    assert "hush" not in str(caught.value)


def test_another_principal_of_the_server_is_refused(file):
    options = f"{JAAS_CONFIG}={file} -Dzookeeper.server.principal=zk/other@REALM"
    with pytest.raises(ConfigError, match=r"zookeeper\.server\.principal is not supported"):
        zookeeper_login({"KAFKA_OPTS": options}, {})


def test_javas_tls_is_allowed_beside_the_setting():
    environment = {"KAFKA_OPTS": "-Dzookeeper.client.secure=true"}
    assert zookeeper_login(environment, {"zookeeper.ssl.client.enable": "true"}) == {}


def test_a_broker_takes_it_if_it_has_a_zookeeper(file):
    environment = {"KAFKA_OPTS": f"{JAAS_CONFIG}={file}"}
    config = BrokerConfig.load(None, {"zookeeper.connect": "zk"}, environment=environment)
    assert config.value(SETTINGS[0]) == str(file)
    assert BrokerConfig.load(None, {}, environment=environment).value(SETTINGS[0]) is None
