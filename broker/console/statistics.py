"""The counters of a broker for the console that it serves. Reading them is plain integer work on the event loop."""

from __future__ import annotations

from collections.abc import Mapping

from broker.metrics import LATENCY_BUCKETS_S, ApiMetrics
from broker.network.acceptor import Acceptor
from broker.services import Services
from console.inside import ApiStatistics, BrokerStatistics, Traffic

_NINETY_NINE_PERCENT = 0.99


def traffic(services: Services) -> Traffic:
    """Return the counters that charts show."""
    partitions = services.replicas.partitions.values()
    return Traffic(
        requests=sum(api.requests for api in services.metrics.apis.values()),
        produced_bytes=sum(one.produced_bytes for one in partitions),
        fetched_bytes=sum(one.fetched_bytes for one in partitions),
    )


def statistics(services: Services, acceptors: Mapping[str, Acceptor]) -> BrokerStatistics:
    """Return the network and request statistics, APIs by name."""
    apis = sorted((api for api in services.metrics.apis.values() if api.request_bytes), key=lambda api: api.api)
    return BrokerStatistics(
        connections={name: len(acceptor.connections) for name, acceptor in acceptors.items()},
        rejected_frames=services.metrics.rejected_frames,
        delayed_fetches=services.replicas.fetches.size,
        delayed_produces=services.replicas.produces.size,
        apis=[_api(one) for one in apis],
    )


def _api(api: ApiMetrics) -> ApiStatistics:
    return ApiStatistics(
        api=api.api,
        requests=api.requests,
        errors=api.errors,
        request_bytes=api.request_bytes,
        response_bytes=api.response_bytes,
        mean_seconds=api.seconds / api.requests if api.requests else 0.0,
        p99_seconds=_percentile(api, _NINETY_NINE_PERCENT),
    )


def _percentile(api: ApiMetrics, part: float) -> float | None:
    """Return the upper bound of the bucket in which this part of the requests is reached; None: beyond all bounds."""
    wanted = sum(api.bucket_counts) * part
    reached = 0
    for bound, count in zip(LATENCY_BUCKETS_S, api.bucket_counts, strict=False):
        reached += count
        if reached >= wanted:
            return bound
    return None
