"""Consumers in groups with short timeouts, so that rebalances are quick."""

from typing import Any

from client.consumer.consumer import Consumer

PROTOCOLS = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
BROKER_SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
}


def quick_consumer(servers: str, *topics: str, **options: Any) -> Consumer:
    """From the beginning, unless the options say otherwise."""
    quick: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
        "session_timeout_ms": 6_000,
        "metadata_max_age_ms": 200,
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 20,
    }
    return Consumer(*topics, bootstrap_servers=servers, **quick | options)
