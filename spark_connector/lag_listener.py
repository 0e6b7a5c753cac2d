"""How far streams are behind, as Prometheus metrics: a listener that the driver program adds to its session.

    from spark_connector.lag_listener import LagListener
    spark.streams.addListener(LagListener(port=9400))

Figures are those of a query's latest progress, that is, as of the beginning of its last batch. A gauge for each query
(its name, else its id), topic and partition:

- `ottla_spark_consumed_offset`: the offset of the next record to read, after the last batch that was done;
- `ottla_spark_latest_offset`: the end of the log (with read_committed the last stable offset);
- `ottla_spark_lag`: the difference, in offsets.

Spark calls every Python source by its own class's name, so a source counts as ours whose offsets have the form of ours.
With Spark Connect the listener runs in the client's process, and the metrics are served there.
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
    """Keeps gauges in `registry` up to date; with a `port` also serves them over HTTP on `host` (0: any free port).

    Raises OSError where the port is taken, ValueError where the registry has these gauges already.
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
        # The labels of each query's gauges, by its run.
        self._shown: dict[str, set[Labels]] = {}
        self._server: Any = None
        if port is not None:
            self._server, _ = start_http_server(port, host, registry=registry)

    @property
    def port(self) -> int | None:
        """Where the metrics are served; None where they are not."""
        return None if self._server is None else int(self._server.server_port)

    def close(self) -> None:
        """Serve no longer. The gauges stay in the registry."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """What was known holds."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Show what a query's progress says."""
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
        """Show the query no longer."""
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

    def _remove(self, gone: set[Labels]) -> None:
        for labels in gone:
            for gauge in self._gauges:
                gauge.remove(*labels)


def _offsets(text: str | Mapping[str, Any] | None) -> Offsets | None:
    """A source's offsets; None where they have another form than ours. Classic Spark gives text, Connect may not."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
        return None if not isinstance(value, Mapping) else from_json(value)
    except (AttributeError, TypeError, ValueError):
        return None
