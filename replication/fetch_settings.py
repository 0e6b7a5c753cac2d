"""The settings that followers act on, as the broker's configuration has them: they may change while it runs."""

from __future__ import annotations

from typing import Protocol


class FetchSettings(Protocol):
    """`replica.fetch.*` and its company."""

    num_replica_fetchers: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_socket_timeout_ms: int
