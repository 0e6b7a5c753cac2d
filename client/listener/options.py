"""The options of `ListenerContainer`: its constructor makes one object of them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypedDict

from client.consumer.fetched import ConsumerRecord
from client.listener.ack_mode import AckMode
from client.listener.error_handlers import ErrorHandler
from client.listener.rate_limit import RateLimit
from client.options import check_range, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOptions:
    """The options of `ListenerContainer`, which describes them. Raises InvalidOptionError for a bad value."""

    ack_mode: AckMode = AckMode.BATCH
    ack_count: int = 100
    ack_time_ms: int = 5_000
    batch: bool = False
    concurrency: int = 1
    order_by: Callable[[ConsumerRecord], Hashable] | None = None
    queue_size: int = 1_000
    error_handler: ErrorHandler | None = None
    rate_limit: RateLimit | None = None
    drain_timeout_s: float = 30.0
    poll_timeout_ms: int = 100

    def __post_init__(self) -> None:
        for option in ("ack_count", "ack_time_ms", "concurrency", "queue_size", "poll_timeout_ms"):
            check_range(option, getattr(self, option), 1)
        check_range("drain_timeout_s", self.drain_timeout_s, 0)
        if self.batch and self.ack_mode is AckMode.RECORD:
            raise refuse(
                "ack_mode", self.ack_mode, "must not be RECORD with batch=True: records are not handled one by one"
            )
        if self.batch and self.concurrency > 1:
            raise refuse(
                "concurrency", self.concurrency, "must be 1 with batch=True: a partition's batches stay in order"
            )


class ContainerKeywords(TypedDict, total=False):
    """The fields of `ContainerOptions` as keyword arguments."""

    ack_mode: AckMode
    ack_count: int
    ack_time_ms: int
    batch: bool
    concurrency: int
    order_by: Callable[[ConsumerRecord], Hashable] | None
    queue_size: int
    error_handler: ErrorHandler | None
    rate_limit: RateLimit | None
    drain_timeout_s: float
    poll_timeout_ms: int
