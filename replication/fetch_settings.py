"""The broker settings that followers use. They may change while the broker runs."""

from __future__ import annotations

from typing import Protocol


class FetchSettings(Protocol):
    """`replica.fetch.*` and related settings."""

    num_replica_fetchers: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_socket_timeout_ms: int
