"""The options of `Reader` and `Consumer`: each constructor makes one object of them, which all its parts share.

Each options class has a TypedDict beside it, which gives the constructor's keyword arguments their types. A test
compares the two.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from client.consumer.assignor_option import make_assignors
from client.consumer.assignors import Assignor
from client.consumer.offsets import EARLIEST, LATEST
from client.consumer.reader_state import Position
from client.options import check_choice, check_range, refuse
from client.wire.cluster_options import ClusterKeywords, ClusterOptions

ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
GROUP_PROTOCOLS: Final = ("classic", "consumer")

Deserializer = Callable[[bytes], Any]

# By `auto_offset_reset`: the timestamp to look up, and where reading begins without an offset; None: nowhere.
_RESETS: Final = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_BEGINNINGS: Final[dict[str, Position | None]] = {"earliest": "beginning", "latest": "end", "none": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions(ClusterOptions):
    """The options of `Reader`, which describes them.

    Names and units are as in `ClusterOptions`; fields in `_bytes` are sizes in bytes. Kafka has no
    `max_buffered_bytes`.
    """

    client_id: str = "ottla-reader"
    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 50 * 1024 * 1024
    max_partition_fetch_bytes: int = 1024 * 1024
    max_buffered_bytes: int = 4 * 1024 * 1024
    check_crcs: bool = True
    client_rack: str = ""

    def __post_init__(self) -> None:
        ClusterOptions.__post_init__(self)
        check_choice("auto_offset_reset", self.auto_offset_reset, tuple(_RESETS))
        check_choice("isolation_level", self.isolation_level, ISOLATION_LEVELS)
        check_range("fetch_min_bytes", self.fetch_min_bytes, 0)
        check_range("fetch_max_wait_ms", self.fetch_max_wait_ms, 0, self.request_timeout_ms - 1)
        check_range("fetch_max_bytes", self.fetch_max_bytes, 1)
        check_range("max_partition_fetch_bytes", self.max_partition_fetch_bytes, 1)
        check_range("max_buffered_bytes", self.max_buffered_bytes, 1)

    @property
    def read_committed(self) -> bool:
        """Whether only records of committed transactions are returned."""
        return self.isolation_level == "read_committed"

    @property
    def reset_timestamp(self) -> int | None:
        """The timestamp to look up with ListOffsets if an offset is out of range; None for "none"."""
        return _RESETS[self.auto_offset_reset]

    @property
    def beginning(self) -> Position | None:
        """Where to start a partition without a position; None for "none"."""
        return _BEGINNINGS[self.auto_offset_reset]


class ReaderKeywords(ClusterKeywords, total=False):
    """The fields of `ReaderOptions` as keyword arguments."""

    auto_offset_reset: str
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_buffered_bytes: int
    check_crcs: bool
    client_rack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(ReaderOptions):
    """The options of `Consumer`, which describes them.

    Names and units are as in `ReaderOptions`; `api_timeout_ms` is Kafka's `default.api.timeout.ms`. `assignors` are
    the objects that `partition_assignment_strategy` names, in the same order.
    """

    client_id: str = "ottla-consumer"
    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    partition_assignment_strategy: object = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    exclude_internal_topics: bool = True
    api_timeout_ms: int = 60_000
    allow_auto_create_topics: bool = True
    assignors: tuple[Assignor, ...] = field(init=False)

    def __post_init__(self) -> None:
        ReaderOptions.__post_init__(self)
        check_choice("group_protocol", self.group_protocol, GROUP_PROTOCOLS)
        check_range("session_timeout_ms", self.session_timeout_ms, 1)
        check_range("heartbeat_interval_ms", self.heartbeat_interval_ms, 1, self.session_timeout_ms - 1)
        check_range("max_poll_interval_ms", self.max_poll_interval_ms, 1)
        check_range("max_poll_records", self.max_poll_records, 1)
        check_range("auto_commit_interval_ms", self.auto_commit_interval_ms, 1)
        check_range("api_timeout_ms", self.api_timeout_ms, 1)
        if self.group_id == "":
            raise refuse("group_id", self.group_id, "must not be empty; None is for no group")
        object.__setattr__(self, "assignors", make_assignors(self.partition_assignment_strategy))

    @property
    def max_poll_interval_s(self) -> float:
        """`max_poll_interval_ms` in seconds."""
        return self.max_poll_interval_ms / 1000

    @property
    def api_timeout_s(self) -> float:
        """`api_timeout_ms` in seconds."""
        return self.api_timeout_ms / 1000


class ConsumerKeywords(ReaderKeywords, total=False):
    """The fields of `ConsumerOptions` as keyword arguments."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    partition_assignment_strategy: object
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    exclude_internal_topics: bool
    api_timeout_ms: int
