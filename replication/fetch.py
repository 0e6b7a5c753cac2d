"""Reading many partitions for one Fetch request, at once or after a wait (long poll).

The limits are KIP-74's: partitions are read in the order of the request until `max_bytes` is used up, and the first
batch of the first partition that has any is returned whole, however large it is: a consumer always gets on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from protocol.errors import ProtocolError
from replication.errors import ReplicationError
from replication.partition import NO_EPOCH, Isolation, Partition
from storage.errors import StorageError
from storage.log_append import LogReadInfo

CONSUMER = -1
"""The replica id of those who are no broker."""

GetPartition = Callable[[str, int, bytes], Partition]
"""Topic, partition, topic id (ZERO_UUID where the request has none) → Partition; raises ReplicationError."""


class FetchPartition:
    """One partition of a Fetch request."""

    __slots__ = (
        "current_leader_epoch",
        "log_start_offset",
        "max_bytes",
        "offset",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        offset: int,
        max_bytes: int,
        current_leader_epoch: int = NO_EPOCH,
        log_start_offset: int = -1,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.offset = offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.log_start_offset = log_start_offset
        """The follower's own; consumers send -1."""


class FetchParams:
    """What holds for all partitions of a Fetch request."""

    __slots__ = ("hard_max_bytes", "isolation", "max_bytes", "max_wait_ms", "min_bytes", "replica_id")

    def __init__(
        self,
        *,
        replica_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
        hard_max_bytes: bool,
    ) -> None:
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation if replica_id == CONSUMER else Isolation.LOG_END
        self.hard_max_bytes = hard_max_bytes
        """True for Fetch v0 to v2, where not even the first batch may exceed the limits."""


class FetchedPartition:
    """The outcome for one partition: an error, or what was read and how far the partition goes."""

    __slots__ = ("error", "high_watermark", "info", "last_stable_offset", "log_start_offset", "request")

    def __init__(
        self,
        request: FetchPartition,
        *,
        info: LogReadInfo | None = None,
        error: Exception | None = None,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.request = request
        self.info = info
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of records."""
        return 0 if self.info is None else self.info.size_bytes


def read_partitions(
    params: FetchParams, requests: Iterable[FetchPartition], get_partition: GetPartition
) -> list[FetchedPartition]:
    """Read every partition of the request, within the limits."""
    remaining = params.max_bytes
    min_one_message = not params.hard_max_bytes
    fetched = []
    for request in requests:
        one = _read_partition(params, request, get_partition, min(remaining, request.max_bytes), min_one_message)
        size = one.size_bytes
        if size:
            min_one_message = False
            remaining = max(0, remaining - size)
        fetched.append(one)
    return fetched


def _read_partition(
    params: FetchParams,
    request: FetchPartition,
    get_partition: GetPartition,
    max_bytes: int,
    min_one_message: bool,
) -> FetchedPartition:
    try:
        partition = get_partition(request.topic, request.partition, request.topic_id)
        log = partition.leader_log(request.current_leader_epoch)
        if params.replica_id != CONSUMER:
            partition.follower_fetches(params.replica_id, request.offset)
        info = partition.read(
            request.offset,
            max_bytes,
            isolation=params.isolation,
            min_one_message=min_one_message,
        )
        if info.first_batch_incomplete and not params.hard_max_bytes:
            info = LogReadInfo(None, True, info.aborted_transactions)  # a part of a batch is of no use to anybody
    except (ReplicationError, StorageError, ProtocolError, OSError) as error:
        return FetchedPartition(request, error=error)
    return FetchedPartition(
        request,
        info=info,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
    )


class DelayedFetch:
    """A Fetch that waits for `min_bytes`: satisfied by enough of them, or by anything the client must hear of."""

    __slots__ = ("_get_partition", "_params", "_requests", "_watched")

    def __init__(
        self,
        params: FetchParams,
        requests: Sequence[FetchPartition],
        watched: Sequence[FetchPartition],
        get_partition: GetPartition,
    ) -> None:
        """`watched`: those of `requests` that can end the wait; the others were unknown from the start."""
        self._params = params
        self._requests = requests
        self._watched = watched
        self._get_partition = get_partition

    def is_satisfied(self) -> bool:
        """See `DelayedOperation`."""
        params = self._params
        available = 0
        for request in self._watched:
            try:
                partition = self._get_partition(request.topic, request.partition, request.topic_id)
                log = partition.leader_log(request.current_leader_epoch)
                if partition.visible_end(log, params.isolation) == request.offset:
                    continue
                if params.min_bytes <= 1:
                    return True
                info = partition.read(
                    request.offset, request.max_bytes, isolation=params.isolation, min_one_message=True
                )
            except (ReplicationError, StorageError, ProtocolError, OSError):
                return True
            available += info.size_bytes
            if available >= params.min_bytes:
                return True
        return False

    def complete(self) -> list[FetchedPartition]:
        """See `DelayedOperation`."""
        return read_partitions(self._params, self._requests, self._get_partition)
