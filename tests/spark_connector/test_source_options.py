"""Options of the source: what is read, what goes before what, and what is refused. No cluster, no Spark."""

from __future__ import annotations

import pickle
import re

import pytest

from client.errors import InvalidOptionError
from client.topic_partition import TopicPartition
from protocol.classic_names import CLASSIC_NAMES
from spark_connector.kafka_options import CONSUMER
from spark_connector.option_table import OPTIONS
from spark_connector.source_options import source_options

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def parse(*, streaming=False, **options):
    return source_options({**BASE, "subscribe": "t", **options}, streaming=streaming)


def refused(*names, streaming=False, **options):
    with pytest.raises(InvalidOptionError) as caught:
        parse(streaming=streaming, **options)
    for name in names:
        assert name in str(caught.value)


def test_names_are_known_in_any_case():
    options = source_options(
        {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBE": "b, a", "FailOnDataLoss": "FALSE"}, streaming=False
    )
    assert options.subscription.topics == ("a", "b")
    assert options.client == {"bootstrap_servers": "h:1"}
    assert options.fail_on_data_loss is False


def test_every_option_has_a_default():
    options = parse(streaming=True)
    assert (options.starting.kind, options.ending) == ("latest", None)
    assert options.fail_on_data_loss
    assert (options.max_offsets, options.min_offsets, options.max_trigger_delay_ms) == (None, None, 900_000)
    assert (options.min_partitions, options.max_records, options.commit_group_id) == (None, None, None)
    batch = parse()
    assert (batch.starting.kind, batch.ending.kind) == ("earliest", "latest")


def test_every_option_of_the_table_is_accepted():
    texts = {
        "startingoffsets": "earliest",
        "endingoffsets": "latest",
        "startingoffsetsbytimestamp": '{"t": {"0": 5}}',
        "endingoffsetsbytimestamp": '{"t": {"0": 5}}',
        "startingoffsetsbytimestampstrategy": "latest",
        "failondataloss": "false",
        "includeheaders": "true",
        "columns": "value,headers",
        "maxtriggerdelay": "1h",
    }
    for streaming in (False, True):
        mode = "stream" if streaming else "batch"
        names = [option.name for option in OPTIONS if option.mode in (mode, "both")]
        options = {name: texts.get(name.lower(), "7") for name in names if name not in ("subscribePattern", "assign")}
        assert source_options({**BASE, **options}, streaming=streaming).columns == ("value", "headers")


def test_options_travel_to_executors():
    assert pickle.loads(pickle.dumps(parse(startingOffsets='{"t": {"0": 1}}'))).starting.numbers == {T0: 1}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "none"),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, "subscribe and assign"),
        ({"subscribePattern": "t", "assign": '{"t": [0]}'}, "subscribePattern and assign"),
    ],
)
def test_exactly_one_of_subscribe_and_subscribe_pattern_and_assign(given, found):
    with pytest.raises(InvalidOptionError, match=f"exactly one of subscribe, subscribePattern, assign.*{found}"):
        source_options({**BASE, **given}, streaming=False)


def test_assign_is_json_of_partitions():
    options = source_options({**BASE, "assign": '{"t": [1, 0]}'}, streaming=False)
    assert options.subscription.partitions == (T0, T1)
    for text in ("t", '{"t": 0}', '{"t": [-1]}', '{"t": ["x"]}', "[]", "{}"):
        with pytest.raises(InvalidOptionError, match="assign"):
            source_options({**BASE, "assign": text}, streaming=False)


def test_a_pattern_must_be_a_regular_expression():
    with pytest.raises(InvalidOptionError, match=r"subscribePattern.*regular expression"):
        source_options({**BASE, "subscribePattern": "t("}, streaming=False)


@pytest.mark.parametrize(
    ("name", "near"),
    [("startingOffset", "startingOffsets"), ("failOnDataLos", "failOnDataLoss"), ("subscribes", "subscribe")],
)
def test_an_unknown_option_is_refused_with_the_nearest_known_one(name, near):
    refused(name, f"did you mean {near}?", **{name: "x"})


def test_an_option_of_kafka_without_its_prefix_is_named_with_it():
    refused("did you mean kafka.isolation.level?", **{"isolation.level": "read_committed"})


def test_an_unknown_option_without_a_near_one_names_all():
    refused("zzz", "minPartitions", "endingTimestamp", zzz="1")


def test_options_added_by_spark_are_accepted():
    assert parse(path="p").columns


# ---- precedence


def test_starting_timestamp_precedes_offsets_by_timestamp_and_these_precede_offsets():
    offsets = {"startingOffsets": '{"t": {"0": 1}}'}
    times = {**offsets, "startingOffsetsByTimestamp": '{"t": {"0": 2}}'}
    time = {**times, "startingTimestamp": "3"}
    for streaming in (False, True):
        assert parse(streaming=streaming, **offsets).starting[:3] == ("offsets", "startingOffsets", {T0: 1})
        found = parse(streaming=streaming, **times).starting
        assert found[:3] == ("times", "startingOffsetsByTimestamp", {T0: 2})
        found = parse(streaming=streaming, **time).starting
        assert (found.kind, found.option, found.number) == ("time", "startingTimestamp", 3)


def test_ending_timestamp_precedes_offsets_by_timestamp_and_these_precede_offsets():
    offsets = {"endingOffsets": '{"t": {"0": 1}}'}
    times = {**offsets, "endingOffsetsByTimestamp": '{"t": {"0": 2}}'}
    assert parse(**offsets).ending[:3] == ("offsets", "endingOffsets", {T0: 1})
    assert parse(**times).ending[:3] == ("times", "endingOffsetsByTimestamp", {T0: 2})
    assert parse(**times, endingTimestamp="3").ending.number == 3


# ---- where a query may begin and end


def test_a_batch_query_cannot_begin_at_latest():
    refused("startingOffsets", "latest", startingOffsets="latest")
    refused("startingOffsets", "t-1", "-1", startingOffsets='{"t": {"0": 5, "1": -1}}')


def test_a_stream_may_begin_at_latest():
    assert parse(streaming=True, startingOffsets="latest").starting.kind == "latest"
    assert parse(streaming=True, startingOffsets='{"t": {"0": -1, "1": -2}}').starting.numbers == {T0: -1, T1: -2}


def test_a_batch_query_cannot_end_at_earliest():
    refused("endingOffsets", "earliest", endingOffsets="earliest")
    refused("endingOffsets", "t-0", "-2", endingOffsets='{"t": {"0": -2}}')


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name):
    refused(name, "stream", streaming=True, **{name: "1"})


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "commitGroupId"])
def test_options_of_streams_have_no_meaning_in_a_batch_query(name):
    with pytest.warns(UserWarning, match=name):
        assert parse(**{name: "5"}).max_offsets is None


@pytest.mark.parametrize(
    "text", ["", "early", "{", '{"t": 5}', '{"t": {"x": 1}}', '{"t": {"0": -3}}', '{"t": {"0": 1.5}}']
)
def test_offsets_are_earliest_or_latest_or_json(text):
    refused("startingOffsets", startingOffsets=text)


@pytest.mark.parametrize("text", ["latest", '{"t": {"0": -1}}', '{"t": {"0": "noon"}}'])
def test_times_by_partition_are_json_of_milliseconds(text):
    refused("startingOffsetsByTimestamp", startingOffsetsByTimestamp=text)


# ---- values


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("startingTimestamp", "-1"),
        ("startingTimestamp", "noon"),
        ("failOnDataLoss", "maybe"),
        ("minPartitions", "0"),
        ("maxRecordsPerPartition", "-5"),
        ("maxRecordsPerPartition", "many"),
        ("includeHeaders", "yes"),
        ("startingOffsetsByTimestampStrategy", "earliest"),
        ("kafkaConsumer.pollTimeoutMs", "0"),
        ("fetchOffset.numRetries", "-1"),
        ("fetchOffset.retryIntervalMs", "x"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxTriggerDelay", "soon"),
        ("subscribe", " "),
        ("subscribe", ","),
    ],
)
def test_a_bad_value_is_refused_with_name_and_value(name, text):
    refused(name, repr(text) if text.strip("-,") and "0" not in text else "", streaming=True, **{name: text})


def test_the_minimum_of_a_trigger_is_at_most_its_maximum():
    assert parse(streaming=True, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5").min_offsets == 5
    refused("minOffsetsPerTrigger=6", "5", streaming=True, minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5")


@pytest.mark.parametrize(
    ("text", "ms"), [("500", 500), ("500ms", 500), ("30 s", 30_000), ("15m", 900_000), ("2H", 7_200_000)]
)
def test_a_delay_has_a_unit(text, ms):
    assert parse(streaming=True, maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_columns_are_cut_to_those_named_in_their_order():
    assert parse(columns="Value, offset").columns == ("value", "offset")
    refused("columns", "'val'", "value", columns="val")
    refused("columns", "includeHeaders", columns="headers")
    refused("columns", "twice", columns="key,key")
    refused("columns", columns="")


def test_the_isolation_level_is_one_of_two():
    assert parse(**{"kafka.isolation.level": "read_committed"}).read_committed
    assert not parse().read_committed
    refused("kafka.isolation.level", "committed", **{"kafka.isolation.level": "committed"})


@pytest.mark.parametrize("name", ["auto.offset.reset", "key.deserializer", "enable.auto.commit", "interceptor.classes"])
def test_consumer_settings_that_cannot_apply_are_refused_with_the_reason(name):
    refused(f"kafka.{name}", **{f"kafka.{name}": "x"})


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("fetch.message.max.bytes", "use kafka.max.partition.fetch.bytes"),
        ("zk.connect", "use kafka.bootstrap.servers"),
        ("autocommit.interval.ms", "use kafka.auto.commit.interval.ms"),
        ("autocommit.enable", "offsets are in the checkpoint; set commitGroupId"),
        ("autooffset.reset", "set startingOffsets"),
        ("queued.max.message.chunks", "the source has no such setting"),
        ("offsets.commit.max.retries", "the source has no such setting"),
        ("rebalance.max.retries", "the source has no such setting"),
        ("acks", "the source has no such setting"),
        ("log.retention.policy", "brokers have log.cleanup.policy; topics have cleanup.policy"),
        ("zk.synctime.ms", "it is gone from Kafka"),
    ],
)
def test_classic_names_are_refused_with_the_option_to_use(name, answer):
    refused(f"kafka.{name}='1': {answer}", **{f"kafka.{name}": "1"})


@pytest.mark.parametrize("name", sorted(CLASSIC_NAMES.keys() - CONSUMER.translated.keys() - CONSUMER.ignored))
def test_the_option_suggested_for_a_classic_name_is_accepted(name):
    with pytest.raises(InvalidOptionError) as caught:
        parse(**{f"kafka.{name}": "1"})
    used = re.findall(r": use (.*)", str(caught.value))
    assert all(one.removeprefix("kafka.") in CONSUMER.translated.keys() | CONSUMER.ignored for one in used)


def test_a_group_id_is_accepted():
    assert parse(**{"kafka.group.id": "g"}, groupIdPrefix="p").client["group_id"] == "g"


def test_bootstrap_servers_must_be_set():
    with pytest.raises(InvalidOptionError, match=r"kafka\.bootstrap\.servers"):
        source_options({"subscribe": "t"}, streaming=False)
