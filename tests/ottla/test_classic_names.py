"""Old Kafka settings, and settings given to the wrong component: the answer has the name of today and its reader."""

import inspect

import pytest

from broker.settings.config import BROKER_SETTINGS, BrokerConfig
from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.consumer.reader import Reader as PartitionReader
from client.errors import InvalidOptionError
from client.large_messages.chunking_producer import ChunkingProducer
from client.large_messages.claim_check_consumer import ClaimCheckConsumer
from client.listener.container import ListenerContainer
from client.producer.producer import Producer
from client.zookeeper.consumer import ZooKeeperConsumer
from protocol.classic_names import CLASSIC_NAMES, Reader, advice, classic_name
from storage.log.config import TOPIC_SETTINGS
from storage.setting import ConfigError

CLIENTS = {
    Reader.PRODUCER: Producer,
    Reader.CONSUMER: Consumer,
    Reader.ZOOKEEPER_CONSUMER: ZooKeeperConsumer,
    Reader.ADMIN: Admin,
}
# What these cannot do without.
REQUIRED = {
    ZooKeeperConsumer: ([["orders"]], {"group_id": "g"}),
    ListenerContainer: ([None, None], {}),
    ChunkingProducer: ([None], {}),
    ClaimCheckConsumer: ([None], {"store": "memory://"}),
}
# What the notes call by name.
NOTES = """
    log.retention.policy replica.lag.max.messages replica.lag.time.max.ms request.required.acks acks min.insync.replicas
    session.timeout.ms zookeeper.session.timeout.ms message.max.bytes log.segment.bytes replica.fetch.max.bytes
    fetch.message.max.bytes enable.auto.commit port offsets.storage group_id consumer_id groupId consumerId
"""
# Kafka's documentation of 0.7, 0.8.0 to 0.8.2: all settings of producers and consumers.
PRODUCERS = {
    "0.7": """
    serializer.class partitioner.class producer.type broker.list zk.connect buffer.size connect.timeout.ms
    socket.timeout.ms reconnect.interval max.message.size compression.codec compressed.topics zk.read.num.retries
    queue.time queue.size batch.size event.handler event.handler.props callback.handler callback.handler.props
    reconnect.time.interval.ms queue.enqueueTimeout.ms
    """,
    "0.8": """
    metadata.broker.list request.required.acks request.timeout.ms producer.type serializer.class key.serializer.class
    partitioner.class compression.codec compressed.topics message.send.max.retries retry.backoff.ms
    topic.metadata.refresh.interval.ms queue.buffering.max.ms queue.buffering.max.messages queue.enqueue.timeout.ms
    batch.num.messages send.buffer.bytes client.id
    """,
    "0.8.2, the new one": """
    bootstrap.servers acks buffer.memory compression.type batch.size client.id linger.ms max.request.size
    receive.buffer.bytes send.buffer.bytes timeout.ms block.on.buffer.full metadata.fetch.timeout.ms metadata.max.age.ms
    retry.backoff.ms retries
    """,
}
CONSUMERS = {
    "0.7": """
    groupid socket.timeout.ms socket.buffersize fetch.size backoff.increment.ms queuedchunks.max autocommit.enable
    autocommit.interval.ms autooffset.reset consumer.timeout.ms rebalance.retries.max mirror.topics.whitelist
    mirror.topics.blacklist mirror.consumer.numthreads consumerid fetcher.backoff.ms rebalance.backoff.ms
    shallowiterator.enable zk.connect zk.sessiontimeout.ms zk.connectiontimeout.ms zk.synctime.ms
    """,
    "0.8": """
    group.id zookeeper.connect consumer.id socket.timeout.ms socket.receive.buffer.bytes fetch.message.max.bytes
    num.consumer.fetchers auto.commit.enable auto.commit.interval.ms queued.max.message.chunks rebalance.max.retries
    fetch.min.bytes fetch.wait.max.ms rebalance.backoff.ms refresh.leader.backoff.ms auto.offset.reset
    consumer.timeout.ms exclude.internal.topics partition.assignment.strategy client.id zookeeper.session.timeout.ms
    zookeeper.connection.timeout.ms zookeeper.sync.time.ms offsets.storage offsets.channel.backoff.ms
    offsets.channel.socket.timeout.ms offsets.commit.max.retries dual.commit.enabled
    """,
}
# Options that ZooKeeperConsumer has under 0.8's names.
ITS_OWN = """
    group.id zookeeper.connect consumer.id socket.timeout.ms fetch.message.max.bytes auto.commit.enable
    auto.commit.interval.ms rebalance.max.retries fetch.min.bytes fetch.wait.max.ms rebalance.backoff.ms
    refresh.leader.backoff.ms auto.offset.reset exclude.internal.topics client.id zookeeper.session.timeout.ms
    zookeeper.connection.timeout.ms offsets.storage dual.commit.enabled
"""


def options_of(client):
    return {
        name
        for name, parameter in inspect.signature(client).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def all_of(texts):
    return sorted({name for text in texts.values() for name in text.split()})


def refusal(client, option):
    """What a client says of an option; None where it has it."""
    options = {option: "1"}
    if client is ZooKeeperConsumer:
        options |= {"topics": ["orders"]} | ({} if option == "group_id" else {"group_id": "g"})
    try:
        client(**options)
    except InvalidOptionError as error:
        return str(error) if " has no option " in str(error) else None
    return None


@pytest.mark.parametrize("row", CLASSIC_NAMES.values(), ids=CLASSIC_NAMES)
def test_every_name_leads_to_one_that_is_read(row):
    for reader, names in row.homes.items():
        if reader is Reader.BROKER:
            assert set(names) <= BROKER_SETTINGS.keys()
        elif reader is Reader.TOPIC:
            assert set(names) <= TOPIC_SETTINGS.keys()
        else:
            assert {reader.spell(name) for name in names} <= options_of(CLIENTS[reader])
    assert row.homes or row.hint


@pytest.mark.parametrize("name", NOTES.split())
@pytest.mark.parametrize("client", CLIENTS.values())
def test_clients_answer_to_the_names_of_the_notes(client, name):
    for option in (name, name.replace(".", "_")):
        said = refusal(client, option)
        dotless = option.replace(".", "_")
        if dotless in options_of(client):
            assert option == dotless or f"did you mean {dotless}?" in said
        else:
            assert "known options" not in said
            assert "did you mean" not in said
            assert any(f"{verb} " in said for verb in ("use", "have", "has"))


@pytest.mark.parametrize("name", NOTES.split())
def test_brokers_answer_to_the_names_of_the_notes(name):
    if name in BROKER_SETTINGS:
        BrokerConfig({name: "1000"})
        return
    with pytest.raises(ConfigError, match=r"is not read any more: use |not a setting of brokers: .* ha") as caught:
        BrokerConfig({name: "1"})
    assert "nearest" not in str(caught.value)


@pytest.mark.parametrize("name", all_of(PRODUCERS))
def test_the_producer_knows_all_that_producers_were_given(name):
    option = name.replace(".", "_")
    said = refusal(Producer, option)
    assert said is None or not any(words in said for words in ("known options", "did you mean"))
    assert said is None or classic_name(name) or option == "retries"


@pytest.mark.parametrize("name", all_of(CONSUMERS))
@pytest.mark.parametrize("client", [Consumer, ZooKeeperConsumer])
def test_consumers_know_all_that_consumers_were_given(client, name):
    said = refusal(client, name.replace(".", "_"))
    assert said is None or not any(words in said for words in ("known options", "did you mean"))


@pytest.mark.parametrize("name", ITS_OWN.split())
def test_the_zookeeper_consumer_has_the_names_of_0_8(name):
    assert name.replace(".", "_") in options_of(ZooKeeperConsumer)
    assert advice(name, Reader.ZOOKEEPER_CONSUMER) is None
    assert set(ITS_OWN.split()) <= set(CONSUMERS["0.8"].split())


@pytest.mark.parametrize(
    ("client", "option", "answer"),
    [
        (Consumer, "fetch_message_max_bytes", "use max_partition_fetch_bytes"),
        (Consumer, "fetch.message.max.bytes", "use max_partition_fetch_bytes"),
        (Consumer, "zookeeper_session_timeout_ms", "brokers have zookeeper.session.timeout.ms; ZooKeeperConsumer has"),
        (Consumer, "rebalance_max_retries", "ZooKeeperConsumer has rebalance_max_retries; in a group of today"),
        (Consumer, "min_insync_replicas", "brokers and topics have min.insync.replicas"),
        (PartitionReader, "groupid", "Consumer and ZooKeeperConsumer have group_id"),
        (Producer, "request.required.acks", "use acks"),
        (Producer, "metadata_broker_list", "use bootstrap_servers"),
        (Producer, "message_max_bytes", "use max_request_size"),
        (Producer, "log_retention_policy", "brokers have log.cleanup.policy; topics have cleanup.policy"),
        (ChunkingProducer, "request_required_acks", "Producer has acks"),
        (ClaimCheckConsumer, "fetch_size", "Consumer has max_partition_fetch_bytes; ZooKeeperConsumer has"),
        (ListenerContainer, "enable_auto_commit", "Consumer has enable_auto_commit; ZooKeeperConsumer has"),
        (ChunkingProducer, "connect_timeout_ms", "Producer, Consumer and Admin have request_timeout_ms"),
        (
            Producer,
            "batch_num_messages",
            "use batch_size; the limit was a number of messages, now it is a number of bytes",
        ),
        (Producer, "max_buffered_bytes", "Consumer and ZooKeeperConsumer have max_buffered_bytes"),
        (Admin, "zk_connect", "use bootstrap_servers"),
        (ZooKeeperConsumer, "max_partition_fetch_bytes", "use fetch_message_max_bytes"),
        (ZooKeeperConsumer, "enable_auto_commit", "use auto_commit_enable"),
        (ZooKeeperConsumer, "zk_connect", "use zookeeper_connect"),
        (ZooKeeperConsumer, "port", "use zookeeper_connect"),
        (ZooKeeperConsumer, "bootstrap_servers", "use zookeeper_connect"),
        (ZooKeeperConsumer, "num_consumer_fetchers", "a consumer fetches from all brokers at once"),
    ],
)
def test_what_clients_answer(client, option, answer):
    arguments, options = REQUIRED.get(client, ([], {}))
    with pytest.raises(InvalidOptionError) as caught:
        client(*arguments, **options, **{option: 1})
    assert str(caught.value).startswith(f"{client.__name__} has no option {option}: {answer}")
    assert caught.value.option == option


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("topics", "list", "--zookeeper", "x"), "use --bootstrap-server"),
        (("produce", "--broker-list", "x", "t"), "use --bootstrap-server"),
        (("produce", "--request-required-acks", "1", "t"), "use --acks"),
        (("produce", "--compression.codec", "gzip", "t"), "use --compression"),
        (("consume", "--groupid", "g", "t"), "use --group"),
        (("broker", "--log.retention.policy", "delete"), "use log.cleanup.policy"),
        (("broker", "--brokerid=3"), "no such option: --brokerid: use broker.id"),
        (("broker", "--set", "log.retention.policy=delete"), "this name is not read any more: use log.cleanup.policy"),
        (("broker", "--set", "request.required.acks=-1"), "not a setting of brokers: Producer has acks"),
    ],
)
def test_what_the_command_answers(ottla, words, answer):
    assert answer in ottla(*words, code=1).err


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--zookeeper", "x", "topics", "list"), "ottla: No such option: --zookeeper: use --bootstrap-server\n"),
        (("--group-id", "x", "topics", "list"), "ottla: No such option: --group-id (Consumer and ZooKeeper"),
        (
            ("consume", "t", "--max-poll-records", "3"),
            "ottla: No such option: --max-poll-records (Consumer has max_poll_records)\n",
        ),
        (
            ("consume", "t", "--fetch-message-max-bytes", "3"),
            "ottla: No such option: --fetch-message-max-bytes (Consumer has max_partition_fetch_bytes; ",
        ),
        (("produce", "t", "--ack", "1"), "ottla: No such option: --ack (did you mean --acks?)\n"),
        (
            ("configs", "describe", "--broker-id", "1"),
            "ottla: No such option: --broker-id (did you mean --broker?) (brokers",
        ),
        (("consume", "t", "--from"), "ottla: No such option: --from (did you mean --from-beginning?)\n"),
        (("consume", "t", "--fom"), "ottla: No such option: --fom\n"),
    ],
)
def test_the_command_says_who_reads_a_setting_for_which_it_has_no_option(ottla, words, answer):
    assert ottla(*words, code=1).err.startswith(answer)


def test_what_a_cluster_answers_to_settings_of_the_past(on, topic):
    def said(*words):
        return on(*words, code=1).err

    assert "Producer has acks" in said("topics", "create", "t2", "--config", "request.required.acks=1")
    assert "use cleanup.policy" in said("topics", "create", "t2", "--config", "log.retention.policy=delete")
    assert "brokers have it, topics have max.message.bytes" in said(
        "topics", "create", "t2", "--config", "message.max.bytes=1"
    )
    of_topic = ("configs", "alter", "--topic", topic)
    assert "use cleanup.policy" in said(*of_topic, "--set", "log.retention.policy=delete")
    assert "use cleanup.policy" in said(*of_topic, "--append", "log.retention.policy=delete")
    of_broker = ("configs", "alter", "--broker-default")
    assert "use log.cleanup.policy" in said(*of_broker, "--set", "log.retention.policy=delete")
    assert "use log.cleanup.policy" in said(*of_broker, "--append", "log.retention.policy=delete")
    assert "Producer has acks" in said(*of_broker, "--set", "request.required.acks=1")
    assert "unknown setting log.retention.policy: use cleanup.policy" in said(
        "configs", "describe", "--topic", topic, "log.retention.policy"
    )


@pytest.fixture
def topic(on):
    on("topics", "create", "of-the-past")
    return "of-the-past"
