"""Options that are unknown or break a rule are refused by name."""

import dataclasses
import inspect
import typing

import pytest

from client.admin.admin import Admin
from client.admin.options import AdminKeywords, AdminOptions
from client.consumer.consumer import Consumer
from client.consumer.options import ConsumerKeywords, ConsumerOptions, ReaderKeywords, ReaderOptions
from client.consumer.reader import Reader
from client.consumer.reader_state import PartitionState, Timestamp
from client.errors import InvalidOptionError
from client.listener.container import ListenerContainer
from client.listener.options import ContainerKeywords, ContainerOptions
from client.options import parse_bootstrap_servers
from client.producer.options import ProducerKeywords, ProducerOptions
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from client.wire.cluster_options import ClusterKeywords, ClusterOptions
from client.zookeeper.consumer import ZooKeeperConsumer
from client.zookeeper.options import ZooKeeperConsumerKeywords, ZooKeeperConsumerOptions


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("a:1", [("a", 1)]),
        ("a", [("a", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        ("[::1]:99,[fe80::1]", [("::1", 99), ("fe80::1", 9092)]),
    ],
)
def test_bootstrap_servers(text, servers):
    assert parse_bootstrap_servers(text) == servers


@pytest.mark.parametrize("text", ["", ",", ":9092", "a:b", "a:0", "a:70000", [], "a:-1", "a:٣"])
def test_bad_bootstrap_servers(text):
    with pytest.raises(InvalidOptionError, match="bootstrap_servers"):
        parse_bootstrap_servers(text)


@pytest.mark.parametrize(
    ("made", "option", "value"),
    [
        (Producer, "acks", 2),
        (Producer, "acks", "most"),
        (Producer, "compression_type", "brotli"),
        (Producer, "linger_ms", -1),
        (Producer, "batch_size", "64k"),
        (Producer, "buffer_memory", 0),
        (Producer, "delivery_timeout_ms", -5),
        (Producer, "max_in_flight_requests_per_connection", 0),
        (Producer, "partitioner", "glue"),
        (Producer, "partitioner", 7),
        (Producer, "retry_backoff_ms", True),
        (Reader, "auto_offset_reset", "smallest"),
        (Reader, "isolation_level", "serializable"),
        (Reader, "fetch_max_wait_ms", 60_000),
        (Reader, "max_partition_fetch_bytes", 0),
        (Admin, "request_timeout_ms", 0),
        (Admin, "default_api_timeout_ms", -1),
        (Admin, "bootstrap_servers", "host:port"),
    ],
)
def test_bad_value_names_option_value_and_rule(made, option, value):
    with pytest.raises(InvalidOptionError) as caught:
        made(**{option: value})
    assert caught.value.option == option
    assert str(caught.value).startswith(f"{option}={value!r}: ")
    assert len(str(caught.value)) > len(f"{option}={value!r}: ")


@pytest.mark.parametrize("made", [Producer, Reader, Admin])
def test_unknown_option_is_named(made):
    with pytest.raises(InvalidOptionError, match=rf"^{made.__name__} has no option bootstrap_server: did you mean"):
        made(bootstrap_server="a:1")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("bootstrap_server", r"did you mean bootstrap_servers\?"),
        ("linger.ms", r"did you mean linger_ms\?"),
        ("max_batch_size", "it is called batch_size here"),
        ("retries", "until delivery_timeout_ms"),
        ("ssl_cafile", "it is ssl_truststore_location here"),
        ("ssl_trust_store_location", r"did you mean ssl_truststore_location\?"),
        ("colour", r"known options: acks, .*, batch_size, .*, value_serializer"),
    ],
)
def test_unknown_option_lists_the_known_options(option, hint):
    with pytest.raises(InvalidOptionError, match=f"^Producer has no option {option}: .*{hint}") as caught:
        Producer(**{option: 1})
    assert caught.value.option == option


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (ClusterOptions, ClusterKeywords),
        (AdminOptions, AdminKeywords),
        (ReaderOptions, ReaderKeywords),
        (ConsumerOptions, ConsumerKeywords),
        (ProducerOptions, ProducerKeywords),
        (ContainerOptions, ContainerKeywords),
        (ZooKeeperConsumerOptions, ZooKeeperConsumerKeywords),
    ],
)
def test_keyword_arguments_have_the_types_of_the_options(options, keywords):
    fields = {field.name: field.type for field in dataclasses.fields(options) if field.init}
    assert typing.get_type_hints(keywords) == fields


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (Admin, AdminOptions),
        (Reader, ReaderOptions),
        (Consumer, ConsumerOptions),
        (Producer, ProducerOptions),
        (ListenerContainer, ContainerOptions),
        (ZooKeeperConsumer, ZooKeeperConsumerOptions),
    ],
)
def test_signatures_show_every_option(made, options):
    shown = inspect.signature(made).parameters
    fields = [field for field in dataclasses.fields(options) if field.init]
    assert shown.keys() - {"topics", "consumer", "handler"} == {field.name for field in fields}
    defaults = [inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default for field in fields]
    assert [shown[field.name].default for field in fields] == defaults
    assert all(shown[field.name].annotation == field.type for field in fields)


def test_a_subclass_may_have_its_own_constructor():
    class Mine(Consumer):
        def __init__(self, servers):
            super().__init__(bootstrap_servers=servers)

    assert list(inspect.signature(Mine).parameters) == ["servers"]


def test_idempotence_needs_acks_all():
    with pytest.raises(InvalidOptionError, match=r"acks=1.*enable_idempotence"):
        Producer(acks=1, enable_idempotence=True)


@pytest.mark.parametrize("position", [-1, "start", None, 1.5, True])
def test_bad_position(position):
    with pytest.raises(InvalidOptionError, match="position="):
        PartitionState(TopicPartition("t", 0), position)


def test_positions():
    state = PartitionState(TopicPartition("t", 0), 7)
    assert (state.position, state.lookup) == (7, None)
    state.seek(Timestamp(1000))
    assert (state.position, state.lookup) == (None, 1000)
    state.found(-1)  # nothing as late: the end is looked up next
    assert state.lookup == -1
    state.found(12)
    assert (state.position, state.fetch_offset, state.lookup) == (12, 12, None)
