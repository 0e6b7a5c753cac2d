"""The lag of streams as Prometheus metrics: a listener that the driver program adds to its session.

    from ottla.spark import LagListener
    spark.streams.addListener(LagListener(port=9400))

The values are those of a query's latest progress, that is, of the beginning of its last batch. There is a gauge for
each query (its name, else its id), topic and partition:

- `ottla_spark_consumed_offset`: the offset of the next record to read, after the last finished batch;
- `ottla_spark_latest_offset`: the end of the log (with read_committed the last stable offset);
- `ottla_spark_lag`: the difference, in offsets.

Spark reports every Python source under the name of Spark's own class, so a source counts as Ottla's if its offsets have
Ottla's format. With Spark Connect the listener runs in the client's process, and the metrics are served there.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from prometheus_client import REGISTRY, CollectorRegistry, Gauge, start_http_server
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_connector.topic_offsets import Offsets, from_json

PYTHON_SOURCE: Final = "PythonMicroBatchStream"
LABELS: Final = ("query", "topic", "partition")
Labels = tuple[str, str, str]


class LagListener(StreamingQueryListener):
    """Updates gauges in `registry`; with a `port` also serves them over HTTP on `host` (0: any free port).

    Raises OSError if the port is in use, ValueError if the registry has these gauges already.
    """

    def __init__(
        self, *, port: int | None = None, host: str = "127.0.0.1", registry: CollectorRegistry | None = None
    ) -> None:
        registry = REGISTRY if registry is None else registry
        self._gauges = [
            Gauge("ottla_spark_consumed_offset", "Offset of the next record to read", LABELS, registry=registry),
            Gauge("ottla_spark_latest_offset", "End of the partition's log", LABELS, registry=registry),
            Gauge("ottla_spark_lag", "Offsets between the two", LABELS, registry=registry),
        ]
        # The labels of each query's gauges, by run id.
        self._shown: dict[str, set[Labels]] = {}
        self._server: Any = None
        if port is not None:
            self._server, _ = start_http_server(port, host, registry=registry)

    @property
    def port(self) -> int | None:
        """The port of the HTTP server; None without a server."""
        return None if self._server is None else int(self._server.server_port)

    def close(self) -> None:
        """Stop the HTTP server. The gauges stay in the registry."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: there is no progress yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: the values have not changed."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Update a query's gauges."""
        progress = event.progress
        name = progress.name or str(progress.id)
        shown: set[Labels] = set()
        for source in progress.sources:
            if PYTHON_SOURCE not in source.description:
                continue
            consumed, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
            if consumed is not None:
                shown |= self._show(name, consumed, latest or {})
        run = str(progress.runId)
        self._remove(self._shown.get(run, set()) - shown)
        self._shown[run] = shown

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Remove the query's gauges."""
        self._remove(self._shown.pop(str(event.runId), set()))

    def _show(self, query: str, consumed: Offsets, latest: Offsets) -> set[Labels]:
        shown: set[Labels] = set()
        for partition, offset in consumed.items():
            labels = (query, partition.topic, str(partition.partition))
            end = max(latest.get(partition, offset), offset)
            for gauge, value in zip(self._gauges, (offset, end, end - offset), strict=True):
                gauge.labels(*labels).set(value)
            shown.add(labels)
        return shown

    def _remove(self, removed: set[Labels]) -> None:
        for labels in removed:
            for gauge in self._gauges:
                gauge.remove(*labels)


def _offsets(text: str | Mapping[str, Any] | None) -> Offsets | None:
    """A source's offsets; None if not in Ottla's format. Classic Spark passes text, Connect may pass a mapping."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
        return None if not isinstance(value, Mapping) else from_json(value)
    except (AttributeError, TypeError, ValueError):
        return None
