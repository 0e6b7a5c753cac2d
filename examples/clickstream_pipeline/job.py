"""The job: clicks from a topic to Parquet files, dead letters and alerts. A plain PySpark program, for any cluster.

    spark-submit job.py --bootstrap-servers 127.0.0.1:9092 --output-dir /data/clicks --checkpoint-dir /data/checkpoints

Five queries, each with a checkpoint of its own:

    events         every click that parses, with its place in the topic          → Parquet, exactly once
    dead_letters   every record that does not, with the reason and its place     → a topic, exactly once
    page_views     clicks per window and page, watermarked                        → Parquet, exactly once
    conversion     per window: sessions, carts, purchases, errors                 → Parquet, exactly once
    alerts         windows of those with too many errors or too many left carts   → a topic, exactly once

It runs until it is asked to stop (SIGTERM, Ctrl-C) or a query fails; with --available-now until it has read what is
there.
"""

import argparse
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

CLICK = (
    "event_id STRING, session STRING, user STRING, type STRING, page STRING, status INT, duration_ms INT, "
    "event_time TIMESTAMP, _corrupt_record STRING"
)
POLL_S = 0.2
REQUIRED = ("event_id", "session", "type", "event_time")


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser("job", description="Clicks to Parquet files, dead letters and alerts.")
    parser.add_argument("--bootstrap-servers", required=True, help="host:port of one or more brokers")
    parser.add_argument("--output-dir", required=True, help="folder or address of the Parquet files")
    parser.add_argument("--checkpoint-dir", required=True, help="folder or address of the checkpoints")
    parser.add_argument("--topic", default="clicks")
    parser.add_argument("--dead-letter-topic", default="clicks.dead-letters")
    parser.add_argument("--alert-topic", default="clicks.alerts")
    parser.add_argument("--window", default="1 minute", help="of event time")
    parser.add_argument("--watermark", default="3 minutes", help="how late a click may be")
    parser.add_argument("--trigger-seconds", type=float, default=2.0, help="between batches")
    parser.add_argument("--max-offsets-per-trigger", type=int, default=200_000)
    parser.add_argument("--error-rate", type=float, default=0.1, help="share of clicks above which an alert goes out")
    parser.add_argument(
        "--abandonment", type=float, default=0.6, help="share of checkouts without a purchase, likewise"
    )
    parser.add_argument("--least-clicks", type=int, default=100, help="in a window, for an alert about its errors")
    parser.add_argument("--least-checkouts", type=int, default=10, help="in a window, for an alert about them")
    parser.add_argument(
        "--delivery-guarantee", default="exactly-once", choices=("at-least-once", "exactly-once"), help="of the topics"
    )
    parser.add_argument("--available-now", action="store_true", help="read what is there, and end")
    parser.add_argument("--progress-file", type=Path, help="append the progress of the queries to it, a JSON a line")
    return parser.parse_args()


class ProgressFile(StreamingQueryListener):
    """Appends the progress of every batch to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to write."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Write it."""
        line = " ".join(event.progress.json.split("\n"))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing to write."""


class Job:
    """The queries, on one session."""

    def __init__(self, spark: SparkSession, options: argparse.Namespace) -> None:
        self._spark = spark
        self._options = options

    def start(self) -> Iterator[StreamingQuery]:
        """Start them, one after the other."""
        yield self._to_parquet("events", self.events())
        yield self._to_topic("dead_letters", self.dead_letters(), self._options.dead_letter_topic)
        yield self._to_parquet("page_views", self.page_views())
        yield self._to_parquet("conversion", self.conversion())
        yield self._to_topic("alerts", self.alerts(), self._options.alert_topic)

    def _records(self) -> DataFrame:
        """Records of the topic, the click in them, and why there is none (`reason`)."""
        records = (
            self._spark.readStream.format("ottla")
            .option("kafka.bootstrap.servers", self._options.bootstrap_servers)
            .option("subscribe", self._options.topic)
            .option("startingOffsets", "earliest")
            .option("columns", "key,value,topic,partition,offset")
            .option("maxOffsetsPerTrigger", str(self._options.max_offsets_per_trigger))
            .load()
        )
        text = F.col("value").cast("string")
        click = F.from_json(text, CLICK, {"columnNameOfCorruptRecord": "_corrupt_record"})
        parsed = records.withColumn("click", click)
        reason = F.when(F.try_parse_json(text).isNull(), "not JSON").when(
            F.col("click._corrupt_record").isNotNull(), "does not fit the schema"
        )
        for name in REQUIRED:
            reason = reason.when(F.col(f"click.{name}").isNull(), f"{name} is missing")
        return parsed.withColumn("reason", reason)

    def events(self) -> DataFrame:
        """Every click, and where it was in the topic."""
        clicks = self._records().where("reason IS NULL")
        return clicks.select("click.*", "partition", "offset").drop("_corrupt_record")

    def dead_letters(self) -> DataFrame:
        """Every other record as it was, with headers that say why it is here and where it came from."""
        broken = self._records().where("reason IS NOT NULL")
        headers = F.array(*(_header(name, F.col(name)) for name in ("reason", "topic", "partition", "offset")))
        return broken.select("key", "value", headers.alias("headers"))

    def _in_windows(self) -> DataFrame:
        watermarked = self.events().withWatermark("event_time", self._options.watermark)
        return watermarked.withColumn("window", F.window("event_time", self._options.window))

    def page_views(self) -> DataFrame:
        """Clicks and their mean duration by window and page."""
        grouped = self._in_windows().groupBy("window", "page")
        counted = grouped.agg(F.count("*").alias("views"), F.round(F.avg("duration_ms"), 1).alias("mean_duration_ms"))
        return counted.select("window.start", "window.end", "page", "views", "mean_duration_ms")

    def conversion(self) -> DataFrame:
        """By window: how many clicks and sessions, how far they came, how many clicks failed."""

        def count_of(condition: str) -> Column:
            return F.count(F.when(F.expr(condition), 1))

        grouped = self._in_windows().groupBy("window")
        counted = grouped.agg(
            F.count("*").alias("clicks"),
            F.approx_count_distinct("session").alias("sessions"),
            count_of("type = 'add_to_cart'").alias("carts"),
            count_of("type = 'checkout'").alias("checkouts"),
            count_of("type = 'purchase'").alias("purchases"),
            count_of("status >= 500").alias("errors"),
        )
        return counted.select(
            F.col("window.start").alias("start"),
            F.col("window.end").alias("end"),
            *("clicks", "sessions", "carts", "checkouts", "purchases", "errors"),
            F.expr("purchases / sessions").alias("conversion"),
        )

    def alerts(self) -> DataFrame:
        """A record for each limit that a window is above."""
        error_rate, abandonment = F.expr("errors / clicks"), F.expr("greatest(0, 1 - purchases / checkouts)")
        candidates = F.array(
            _alert("error_rate", error_rate, self._options.error_rate, F.col("clicks") >= self._options.least_clicks),
            _alert(
                "cart_abandonment",
                abandonment,
                self._options.abandonment,
                F.col("checkouts") >= self._options.least_checkouts,
            ),
        )
        alert = F.explode(F.filter(candidates, lambda one: one["is_due"]))
        found = self.conversion().select("start", "end", "clicks", alert.alias("alert"))
        body = F.struct("alert.name", "alert.rate", "alert.limit", "start", "end", "clicks")
        return found.select(F.col("alert.name").alias("key"), F.to_json(body).alias("value"))

    def _to_parquet(self, name: str, rows: DataFrame) -> StreamingQuery:
        writer = rows.writeStream.format("parquet").option("path", f"{self._options.output_dir}/{name}")
        return self._start(name, writer)

    def _to_topic(self, name: str, rows: DataFrame, topic: str) -> StreamingQuery:
        writer = (
            rows.writeStream.format("ottla")
            .option("kafka.bootstrap.servers", self._options.bootstrap_servers)
            .option("topic", topic)
            .option("deliveryGuarantee", self._options.delivery_guarantee)
        )
        if self._options.delivery_guarantee == "exactly-once":
            writer = writer.option("transactionalIdPrefix", topic)
        return self._start(name, writer)

    def _start(self, name: str, writer: DataStreamWriter) -> StreamingQuery:
        writer = writer.queryName(name).option("checkpointLocation", f"{self._options.checkpoint_dir}/{name}")
        if self._options.available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._options.trigger_seconds} seconds").start()


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def _alert(name: str, rate: Column, limit: float, applies: Column) -> Column:
    return F.struct(
        F.lit(name).alias("name"),
        F.round(rate, 4).alias("rate"),
        F.lit(limit).alias("limit"),
        (applies & (rate > limit)).alias("is_due"),
    )


def main() -> None:
    """Run the job."""
    options = arguments()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    spark = SparkSession.builder.appName("clickstream").getOrCreate()
    signal.signal(signal.SIGINT, lambda *_: stopping.set())  # Spark has set its own
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    if options.progress_file is not None:
        spark.streams.addListener(ProgressFile(options.progress_file))
    queries: list[StreamingQuery] = []
    for query in Job(spark, options).start():
        queries.append(query)
        # The next one when this one runs: each starts Python workers, and Spark gives a worker ten seconds to start.
        while query.isActive and query.lastProgress is None and not stopping.wait(POLL_S):
            pass
        if stopping.is_set():
            break
    while not stopping.wait(POLL_S) and any(query.isActive for query in queries):
        for query in queries:
            if (error := query.exception()) is not None:
                raise error
    for query in queries:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
