"""Settings of Kafka's metrics reporters; Ottla's own metrics need none."""

from __future__ import annotations

from storage.setting import (
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    READ_ONLY,
    STRING,
    Setting,
    table,
)

# fmt: off
METRICS_SETTINGS: dict[str, Setting] = table((
    Setting("auto.include.jmx.reporter", BOOLEAN, "true", None,
            LOW, READ_ONLY, "Whether Kafka reports by JMX; Ottla's metrics are at /metrics of its console."),
    Setting("kafka.metrics.polling.interval.secs", INT, "10", AT_LEAST_1,
            LOW, READ_ONLY, "How often Kafka's older metrics are reported."),
    Setting("kafka.metrics.reporters", LIST, "", None,
            LOW, READ_ONLY, "Java classes that report Kafka's older metrics."),
    Setting("metric.reporters", LIST, "", None,
            LOW, CLUSTER_WIDE, "Java classes that report metrics."),
    Setting("metrics.num.samples", INT, "2", AT_LEAST_1,
            LOW, READ_ONLY, "Samples kept for a metric."),
    Setting("metrics.recording.level", STRING, "INFO", None,
            LOW, READ_ONLY, "How much is measured."),
    Setting("metrics.sample.window.ms", LONG, "30000", AT_LEAST_1,
            LOW, READ_ONLY, "Length of a sample of a metric."),
    Setting("telemetry.max.bytes", INT, "1048576", AT_LEAST_1,
            LOW, READ_ONLY, "Bytes of metrics that a client may push."),
))
# fmt: on
