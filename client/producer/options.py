"""The options of `Producer`: its constructor makes one object of them, which all its parts share.

The TypedDict beside the options class gives the constructor's keyword arguments their types. A test compares the two.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from client.options import check_choice, check_range, refuse
from client.producer.partitioner import Partitioner, PartitionFunction
from client.wire.cluster_options import ClusterKeywords, ClusterOptions
from protocol.compression import CompressionType

Serializer = Callable[[Any], bytes]

_COMPRESSION_TYPES: Final[dict[str | None, CompressionType]] = {
    None: CompressionType.NONE,
    "none": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}
_ACKS: Final[dict[object, int]] = {"all": -1, -1: -1, 0: 0, 1: 1, "0": 0, "1": 1, "-1": -1}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClusterOptions):
    """The options of `Producer`, which describes them.

    Names and units are as in `ClusterOptions`. `batch_size`, `buffer_memory` and `max_request_size` are in bytes.
    `now_ms` returns the wall clock time in ms. The value of `partitioner` is checked when the partitioner is made.
    """

    client_id: str = "ottla-producer"
    acks: int | str = "all"
    enable_idempotence: bool | None = None
    compression_type: str | None = None
    compression_level: int | None = None
    batch_size: int = 64 * 1024
    linger_ms: float = 0
    buffer_memory: int = 32 * 1024 * 1024
    max_request_size: int = 1024 * 1024
    max_block_ms: int = 60_000
    max_in_flight_requests_per_connection: int = 5
    delivery_timeout_ms: int = 120_000
    allow_auto_create_topics: bool = True
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    partitioner: str | Partitioner | PartitionFunction | None = None
    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None
    now_ms: Callable[[], int] = _now_ms

    def __post_init__(self) -> None:
        ClusterOptions.__post_init__(self)
        self._check_acks()
        check_choice("compression_type", self.compression_type, tuple(_COMPRESSION_TYPES))
        check_range("batch_size", self.batch_size, 0)
        check_range("linger_ms", self.linger_ms, 0)
        check_range("buffer_memory", self.buffer_memory, 1)
        check_range("max_request_size", self.max_request_size, 1)
        check_range("max_block_ms", self.max_block_ms, 0)
        check_range("max_in_flight_requests_per_connection", self.max_in_flight_requests_per_connection, 1)
        check_range("delivery_timeout_ms", self.delivery_timeout_ms, self.linger_ms)
        check_range("transaction_timeout_ms", self.transaction_timeout_ms, 1)

    def _check_acks(self) -> None:
        check_choice("acks", self.acks, tuple(_ACKS))
        if self.idempotent and self.required_acks != -1:
            raise refuse("acks", self.acks, 'must be "all" with enable_idempotence=True')
        if self.transactional_id is not None and not self.idempotent:
            raise refuse("transactional_id", self.transactional_id, 'needs acks="all" and enable_idempotence')
        if self.transactional_id == "":
            raise refuse("transactional_id", self.transactional_id, "must not be empty")

    @property
    def required_acks(self) -> int:
        """`acks` as in a Produce request: -1 for "all"."""
        return _ACKS[self.acks]

    @property
    def idempotent(self) -> bool:
        """Whether batches have sequence numbers (KIP-98)."""
        return self.required_acks == -1 if self.enable_idempotence is None else self.enable_idempotence

    @property
    def compression(self) -> CompressionType:
        """The codec of `compression_type`."""
        return _COMPRESSION_TYPES[self.compression_type]

    @property
    def max_block_s(self) -> float:
        """`max_block_ms` in seconds."""
        return self.max_block_ms / 1000


class ProducerKeywords(ClusterKeywords, total=False):
    """The fields of `ProducerOptions` as keyword arguments."""

    acks: int | str
    enable_idempotence: bool | None
    compression_type: str | None
    compression_level: int | None
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_request_size: int
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    partitioner: str | Partitioner | PartitionFunction | None
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    now_ms: Callable[[], int]
