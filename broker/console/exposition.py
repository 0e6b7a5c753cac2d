"""The metrics in Prometheus's text format, or in OpenMetrics if the scraper requests it.

Each broker has its own registry. Values are read on the event loop, so that they are consistent. A thread generates
the text, which takes some microseconds for each line, much longer than reading the values.

This module imports prometheus_client: it is imported at the first scrape.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from broker.console.metrics import (
    COUNTER,
    DURATION,
    DURATION_DOCUMENTATION,
    METRICS,
    Metric,
    Source,
    used_apis,
)
from broker.console.readings import Readings
from broker.console.rights import Rights
from broker.metrics import LATENCY_BUCKETS_S
from broker.network.acceptor import Acceptor
from broker.services import Services

_BOUNDS = [*(repr(bound) for bound in LATENCY_BUCKETS_S), "+Inf"]
Histogram = tuple[str, list[int], float]
"""API, cumulative counts by bound, sum of seconds."""


class BrokerCollector(Collector):
    """The last readings, as metrics of prometheus_client."""

    def __init__(self) -> None:
        self.readings: list[tuple[Metric, Readings]] = []
        self.histograms: list[Histogram] = []

    def describe(self) -> Iterable[Family]:
        """Return the families without values, for the registry's check of their names."""
        return [*(_family(metric) for metric in METRICS), _duration()]

    def collect(self) -> Iterator[Family]:
        """Yield the families with the last readings."""
        for metric, readings in self.readings:
            family = _family(metric)
            for labels, value in readings:
                family.add_metric(labels, value)
            yield family
        durations = _duration()
        for api, counts, seconds in self.histograms:
            durations.add_metric([api], list(zip(_BOUNDS, counts, strict=True)), seconds)
        yield durations


class Exposition:
    """Renders the metrics of one broker and of its process as text."""

    def __init__(self, services: Services, acceptors: Mapping[str, Acceptor], version: str) -> None:
        self._source = Source(services, acceptors, version)
        self._collector = BrokerCollector()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._collector)
        ProcessCollector(registry=self._registry)
        self._rendering = asyncio.Lock()  # the collector has the readings of one request

    async def render(self, accept: str, rights: Rights) -> tuple[bytes, str]:
        """Return the body and its content type for a request with this Accept header.

        Topics, groups and users that the reader may not see are left out.
        """
        encode, content_type = choose_encoder(accept)
        async with self._rendering:
            self._collector.readings = [
                (metric, visible(metric.labels, metric.read(self._source), rights)) for metric in METRICS
            ]
            self._collector.histograms = [
                (api.api, list(accumulate(api.bucket_counts)), api.seconds) for api in used_apis(self._source)
            ]
            body = await asyncio.get_running_loop().run_in_executor(None, encode, self._registry)
        return body, content_type


def visible(labels: tuple[str, ...], readings: Readings, rights: Rights) -> Readings:
    """Return the readings whose topic and group the reader may see; none of users if it may not see them."""
    if "user" in labels and not rights.see_users:
        return []
    for label, may_see in (("topic", rights.see_topic), ("group", rights.see_group)):
        if label in labels:
            at = labels.index(label)
            readings = [one for one in readings if may_see(one[0][at])]
    return readings


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    family = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    return family(metric.name, metric.documentation, labels=metric.labels)


def _duration() -> HistogramMetricFamily:
    return HistogramMetricFamily(DURATION, DURATION_DOCUMENTATION, labels=["api"])
