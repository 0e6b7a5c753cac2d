"""The counters of the broker.

Counting is on the hot path, so it is plain integer arithmetic; `broker/console/metrics.py` converts the counters to
Prometheus's metrics at each scrape.
"""

from __future__ import annotations

from bisect import bisect_left

LATENCY_BUCKETS_S = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class ApiMetrics:
    """The counters of one API's requests."""

    __slots__ = ("api", "bucket_counts", "errors", "request_bytes", "requests", "response_bytes", "seconds")

    def __init__(self, api: str) -> None:
        self.api = api
        self.requests = 0
        self.errors = 0  # answers with an error that no handler expected
        self.request_bytes = 0
        self.response_bytes = 0
        self.seconds = 0.0
        self.bucket_counts = [0] * (len(LATENCY_BUCKETS_S) + 1)
        """Not cumulative; the last bucket counts requests slower than all bounds."""

    def answered(self, seconds: float, response_bytes: int) -> None:
        """Count one answered request."""
        self.requests += 1
        self.seconds += seconds
        self.response_bytes += response_bytes
        self.bucket_counts[bisect_left(LATENCY_BUCKETS_S, seconds)] += 1


class BrokerMetrics:
    """The counters of one broker, except those of its partitions. Each broker has its own, also within one process."""

    def __init__(self) -> None:
        self.apis: dict[str, ApiMetrics] = {}
        self.rejected_frames = 0  # frames that were not valid requests; their connections were closed

    def api(self, name: str) -> ApiMetrics:
        """Return the counters of one API, created on first use."""
        metrics = self.apis.get(name)
        if metrics is None:
            metrics = self.apis[name] = ApiMetrics(name)
        return metrics
