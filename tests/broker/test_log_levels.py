"""The levels of a broker's loggers (BROKER_LOGGER, KIP-412): what is told, what is changed, what is refused."""

from __future__ import annotations

import logging

import pytest

from broker.log_levels import LEVELS, TRACE, full_name, logger_levels
from client.admin.admin import Admin
from client.admin.types import ConfigChange, ConfigOperation
from client.admin.types import ConfigSource as Source
from client.admin.types import ResourceType as Type
from client.errors import InvalidConfigurationError, InvalidRequestError
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from support.broker import broker_process, running_broker
from support.kafka_clients import kafka
from support.wire import wire_client

LOGGER = Type.BROKER_LOGGER
INVALID = InvalidConfigurationError
NAME = "broker.settings.store"


@pytest.fixture(autouse=True)
def levels_as_before():
    """Levels belong to the process: the fixtures of `ottla.testing`, for example, set some until the session ends."""
    names = [None, NAME, "broker.settings", "broker", "storage"]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names[1:]:
        logging.getLogger(name).setLevel(logging.NOTSET)
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
async def admin(tmp_path):
    async with (
        running_broker(tmp_path / "data") as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        yield admin


async def levels(admin, *names):
    found = await admin.describe_configs(LOGGER, "0", names or None)
    assert all(one.source is Source.DYNAMIC_BROKER_LOGGER_CONFIG for one in found.values())
    return {name: one.value for name, one in found.items()}


async def change(admin, *changes, validate_only=False):
    rows = [ConfigChange(name, value, operation) for name, operation, value in changes]
    await admin.incremental_alter_configs(LOGGER, "0", rows, validate_only=validate_only)


async def test_a_level_is_set_and_reset(admin):
    assert (await levels(admin, NAME))[NAME] == (await levels(admin, "root"))["root"]
    await change(admin, (NAME, ConfigOperation.SET, "TRACE"), validate_only=True)
    assert logging.getLogger(NAME).level == logging.NOTSET
    for name, number in LEVELS.items():
        await change(admin, (NAME, ConfigOperation.SET, name))
        assert await levels(admin, NAME) == {NAME: name}
        assert logging.getLogger(NAME).level == number
    await change(admin, (NAME, ConfigOperation.DELETE, None))
    assert logging.getLogger(NAME).level == logging.NOTSET


async def test_a_package_is_the_logger_of_its_modules(admin):
    await change(admin, ("broker.settings", ConfigOperation.SET, "ERROR"), ("root", ConfigOperation.SET, "FATAL"))
    found = await levels(admin)
    assert [found[name] for name in ("broker.settings", NAME, "broker.broker", "root")] == [
        "ERROR",
        "ERROR",
        "FATAL",
        "FATAL",
    ]
    assert not logging.getLogger(NAME).isEnabledFor(logging.WARNING)


def test_a_level_between_two_of_kafkas_is_shown_as_the_lower_one():
    logging.getLogger(NAME).setLevel(logging.INFO + 5)
    logging.getLogger("storage").setLevel(1)
    assert logger_levels()[NAME] == "INFO"
    assert logger_levels()["storage"] == "TRACE"
    assert logging.getLevelName(TRACE) == "TRACE"


@pytest.mark.parametrize(
    ("operation", "name", "value", "error", "message"),
    [
        (
            ConfigOperation.SET,
            "kafka.server.KafkaApis",
            "DEBUG",
            INVALID,
            "named after its Python modules",
        ),
        (ConfigOperation.SET, "broker.settings.stores", "DEBUG", INVALID, f"does not exist! The nearest is {NAME}"),
        (ConfigOperation.DELETE, "no.such.logger", None, INVALID, "Logger no.such.logger does not exist!"),
        (
            ConfigOperation.SET,
            NAME,
            "debug",
            INVALID,
            "debug as it is not a supported log level. Valid log levels are FATAL, ERROR, WARN, INFO, DEBUG, TRACE$",
        ),
        (ConfigOperation.SET, NAME, "WARNING", INVALID, "to WARNING as it is not a supported log level"),
        (ConfigOperation.SET, NAME, None, InvalidRequestError, "needs a level"),
        (
            ConfigOperation.APPEND,
            NAME,
            "DEBUG",
            InvalidRequestError,
            "APPEND operation is not allowed for the BROKER_LOGGER",
        ),
        (
            ConfigOperation.SUBTRACT,
            NAME,
            "DEBUG",
            InvalidRequestError,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER",
        ),
        (
            ConfigOperation.DELETE,
            "root",
            None,
            InvalidRequestError,
            "Removing the log level of the root logger is not",
        ),
    ],
)
async def test_refused_changes_change_nothing(admin, operation, name, value, error, message):
    with pytest.raises(error, match=message):
        await change(admin, ("broker.broker", ConfigOperation.SET, "TRACE"), (name, operation, value))
    assert logging.getLogger("broker.broker").level == logging.NOTSET


@pytest.mark.parametrize(
    ("name", "of_describe", "of_alter"),
    [
        ("", "Broker id must not be empty", "Node id must be an integer, but it is: "),
        ("1", "Unexpected broker id, expected 0, but received 1", "Unexpected broker id, expected 0, but received 1"),
        ("zero", "Broker id must be an integer, but it is: zero", "Node id must be an integer, but it is: zero"),
    ],
)
async def test_only_the_broker_itself_answers(tmp_path, name, of_describe, of_alter):
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        asked = DescribeConfigsResource(resource_type=LOGGER, resource_name=name, configuration_keys=None)
        (described,) = (await client.call(DescribeConfigsRequest(resources=[asked]))).results
        changed = ChangedResource(resource_type=LOGGER, resource_name=name, configs=[])
        (altered,) = (await client.call(IncrementalAlterConfigsRequest(resources=[changed]))).responses
        for answer, message in ((described, of_describe), (altered, of_alter)):
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert answer.error_message == message


async def test_the_older_api_cannot_change_levels(tmp_path):
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        resource = AlterConfigsResource(resource_type=LOGGER, resource_name="0", configs=[])
        (answer,) = (await client.call(AlterConfigsRequest(resources=[resource]))).responses
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "IncrementalAlterConfigs" in answer.error_message


def test_kafka_pythons_admin_client_changes_what_the_broker_logs(tmp_path):
    """In a broker process: a changed level changes its output, until it is started again."""
    from kafka.admin import ConfigResource, ConfigResourceType

    with broker_process(tmp_path / "data") as broker:

        def resource(configs=None):
            return ConfigResource(ConfigResourceType.BROKER_LOGGER, "0", configs)

        admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        try:
            [described] = admin.describe_configs([resource()], config_filter="all").values()
            assert described["0"]["root"]["value"] == "INFO"
            admin.alter_configs([resource({"root": "ERROR"})])
            [described] = admin.describe_configs([resource()], config_filter="all").values()
            assert {described["0"][name]["value"] for name in ("root", "broker.broker")} == {"ERROR"}
        finally:
            admin.close()
        before = broker.log_text()
        assert broker.stop() == 0
        assert broker.log_text() == before
        broker.start()
        broker.stop()
        assert "stopped cleanly" in broker.log_text()


def test_a_logger_may_be_named_without_the_package_of_the_wheel(monkeypatch):
    known = ["other", "ottla.broker", "ottla.other", "root"]
    monkeypatch.setattr("broker.log_levels._CONTAINER", "ottla.")
    names = ["broker", "ottla.broker", "other", "root", "brokers"]
    assert [full_name(name, known) for name in names] == ["ottla.broker", "ottla.broker", "other", "root", "brokers"]
