"""Lag as Prometheus metrics: from the progress of a real query, and served over HTTP."""

from __future__ import annotations

import urllib.request

from prometheus_client import CollectorRegistry

from spark_connector.lag_listener import LagListener
from support.counts import full_only
from support.polling import until_blocking


def metrics(registry, query, topic):
    """(consumed, latest, lag) of partition 0."""
    labels = {"query": query, "topic": topic, "partition": "0"}
    names = ("consumed_offset", "latest_offset", "lag")
    return tuple(registry.get_sample_value(f"ottla_spark_{name}", labels) for name in names)


@full_only
def test_a_query_shows_its_offsets_and_the_end_offsets(spark, topics, tmp_path):
    topic = topics.create()
    topics.fill(topic, *"abcde")
    registry = CollectorRegistry()
    listener = LagListener(registry=registry, port=0)
    seen = []
    spark.streams.addListener(listener)
    try:
        frame = spark.readStream.format("ottla").options(**topics.options, subscribe=topic, maxOffsetsPerTrigger="2")
        writer = frame.option("startingOffsets", "earliest").load().writeStream.queryName("lagging")

        def look(_, number):
            # While the second batch is under way the progress of the first one is told.
            if number == 1:
                until_blocking(lambda: metrics(registry, "lagging", topic) == (2.0, 5.0, 3.0), "the lag is shown")
                with urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics") as answer:
                    seen.append(answer.read().decode())

        query = writer.foreachBatch(look).option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
        query.start().awaitTermination()
        assert f'ottla_spark_lag{{partition="0",query="lagging",topic="{topic}"}} 3.0' in seen[0]
        until_blocking(lambda: metrics(registry, "lagging", topic) == (None, None, None), "the query is shown no more")
    finally:
        spark.streams.removeListener(listener)
        listener.close()


def test_other_sources_are_not_shown(spark, tmp_path):
    registry = CollectorRegistry()
    listener = LagListener(registry=registry)
    spark.streams.addListener(listener)
    try:
        frame = spark.readStream.format("rate").load()
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        query.trigger(availableNow=True).start().awaitTermination()
    finally:
        spark.streams.removeListener(listener)
    assert "query=" not in str(list(registry.collect()))
    assert listener.port is None
