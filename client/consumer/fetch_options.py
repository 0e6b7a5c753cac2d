"""What the options of a reader say of fetching, under their names; times in ms, sizes in bytes."""

from typing import Final, NamedTuple

from client.consumer.reader_state import POLICIES
from client.options import check_choice, check_range

ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")


class FetchOptions(NamedTuple):
    """See `Reader`, which has them all."""

    auto_offset_reset: str
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_buffered_bytes: int
    check_crcs: bool = True
    client_rack: str = ""

    def check(self, request_timeout_ms: int) -> None:
        """Raise InvalidOptionError for a value that breaks a rule."""
        check_choice("auto_offset_reset", self.auto_offset_reset, tuple(POLICIES))
        check_choice("isolation_level", self.isolation_level, ISOLATION_LEVELS)
        check_range("fetch_min_bytes", self.fetch_min_bytes, 0)
        check_range("fetch_max_wait_ms", self.fetch_max_wait_ms, 0, request_timeout_ms - 1)
        check_range("fetch_max_bytes", self.fetch_max_bytes, 1)
        check_range("max_partition_fetch_bytes", self.max_partition_fetch_bytes, 1)
        check_range("max_buffered_bytes", self.max_buffered_bytes, 1)

    @property
    def read_committed(self) -> bool:
        """Whether only committed transactions are seen."""
        return self.isolation_level == "read_committed"

    @property
    def policy(self) -> int | None:
        """Where to look up the offset to go on at; None for nowhere."""
        return POLICIES[self.auto_offset_reset]
