"""Source and sink on a cluster with TLS and SASL, and no secret in what Spark shows."""

from __future__ import annotations

import json
import logging
import pickle

import pytest

from client.errors import InvalidOptionError
from ottla import testing
from security.jaas import SCRAM_MODULE
from spark_connector.kafka_options import PRODUCER, client_options
from spark_connector.sink_options import sink_options
from spark_connector.source_options import source_options
from support.certificates import authority, server_certificate

SECRET = "hunter2-Zürich"
PREFIX = "listener.name.secured."
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    trust = str(authority().write(folder / "ca.pem"))
    settings = {
        "listeners": "SECURED://127.0.0.1:0",
        "listener.security.protocol.map": "SECURED:SASL_SSL",
        "inter.broker.listener.name": "SECURED",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{PREFIX}sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}plain.sasl.jaas.config": f'{PLAIN_MODULE} required username=b password=b user_b=b user_a="{SECRET}";',
        f"{PREFIX}ssl.keystore.type": "PEM",
        f"{PREFIX}ssl.keystore.location": str(server_certificate().write(folder / "server.pem")),
        f"{PREFIX}ssl.truststore.type": "PEM",
        f"{PREFIX}ssl.truststore.location": trust,
    }
    with testing.broker(settings) as broker:
        yield {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": trust,
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{PLAIN_MODULE} required username="a" password="{SECRET}";',
        }


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_rows_make_the_round_trip(spark, options, caplog, capfd, guarantee):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "py4j")  # below, Spark logs every call of its Java side
    topic = f"t-{guarantee}"
    rows = spark.createDataFrame([(f"{at}",) for at in range(5)], ["value"]).coalesce(1)
    writer = rows.write.format("ottla").mode("append").options(**options, topic=topic, deliveryGuarantee=guarantee)
    if guarantee == "exactly-once":
        writer = writer.option("transactionalIdPrefix", "prefix")
    writer.save()
    read = spark.read.format("ottla").options(**options, subscribe=topic).load()
    assert sorted(row.value.decode() for row in read.collect()) == ["0", "1", "2", "3", "4"]
    read.explain(extended=True)
    captured = capfd.readouterr()
    assert "ottla" in captured.out
    assert SECRET not in captured.out + captured.err + caplog.text


def test_a_stream_shows_no_secret(spark, options, tmp_path, capfd):
    rows = spark.createDataFrame([("one",)], ["value"])
    rows.write.format("ottla").mode("append").options(**options, topic="streamed").save()
    source = (
        spark.readStream.format("ottla").options(**options, subscribe="streamed", startingOffsets="earliest").load()
    )
    writing = source.writeStream.format("ottla").options(**options, topic="copied")
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    shown = json.dumps([json.loads(one.json) for one in query.recentProgress])
    query.explain(extended=True)
    captured = capfd.readouterr()
    assert "streamed" in shown
    assert SECRET not in shown + captured.out + captured.err
    for file in (tmp_path / "checkpoint").rglob("*"):
        assert SECRET.encode() not in (file.read_bytes() if file.is_file() else b"")


def test_options_can_be_pickled_and_hide_secrets(options):
    for made in (
        source_options({**options, "subscribe": "t"}, streaming=False),
        sink_options({**options, "topic": "t"}),
    ):
        assert SECRET not in repr(made)
        again = pickle.loads(pickle.dumps(made))
        assert again == made
        assert SECRET in again.client["sasl_jaas_config"]


def test_java_settings_without_an_effect_are_accepted(options):
    assert client_options({**options, "kafka.ssl.trustmanager.algorithm": "PKIX"}, PRODUCER)


@pytest.mark.parametrize(
    ("changed", "clue"),
    [
        ({"kafka.sasl.mechanism": "SCRAM-SHA-256"}, rf"kafka\.sasl\.jaas\.config=\[hidden\].*{SCRAM_MODULE}"),
        ({"kafka.security.protocol": "PLAINTEXT"}, r"kafka\.ssl\.truststore\.type='PEM': needs"),
        ({"kafka.ssl.engine.factory.class": "x"}, r"kafka\.ssl\.engine\.factory\.class=\[hidden\]: "),
    ],
)
def test_settings_that_do_not_go_together(options, changed, clue):
    with pytest.raises(InvalidOptionError, match=clue) as caught:
        client_options(options | changed, PRODUCER)
    assert SECRET not in str(caught.value)
