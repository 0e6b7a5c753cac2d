"""Read many partitions for one Fetch request, at once or after a wait (long poll).

The limits are those of KIP-74: partitions are read in the order of the request until `max_bytes` is used up. The first
batch of the first partition that has records is returned whole, however large it is: a consumer always makes progress.

A follower's fetch reports its log end offset. The answer may contain a *diverging epoch*: the point from which on the
follower's log differs from the leader's (KIP-595). A consumer's fetch from a new leader waits until the leader knows
that all records before its epoch are committed: the high watermark must not be lower than one that consumers have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from protocol.errors import ProtocolError
from protocol.sentinels import NO_EPOCH, UNKNOWN_BROKER_EPOCH, UNKNOWN_OFFSET
from replication.errors import OffsetNotAvailableError, ReplicationError
from replication.isolation import Isolation
from replication.partition import Partition
from storage.errors import OffsetOutOfRangeError, StorageError
from storage.log.append import LogReadInfo
from storage.log.leader_epoch_cache import UNDEFINED_EPOCH_OFFSET
from storage.log.log import Log
from storage.log.warm_up import ColdReadError, WarmUp

CONSUMER = -1
"""The replica id of clients that are not brokers."""


GetPartition = Callable[[str, int, bytes], Partition]
"""(topic, partition, topic id; ZERO_UUID if the request has none) → Partition. Raises ReplicationError."""


class FetchPartition:
    """One partition of a Fetch request."""

    __slots__ = (
        "current_leader_epoch",
        "last_fetched_epoch",
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
        last_fetched_epoch: int = NO_EPOCH,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.offset = offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.log_start_offset = log_start_offset
        """The follower's log start offset; -1 from consumers."""
        self.last_fetched_epoch = last_fetched_epoch
        """The leader epoch of the client's last record; NO_EPOCH if the logs are not to be compared."""


class FetchParams:
    """What applies to all partitions of a Fetch request."""

    __slots__ = (
        "broker_epoch",
        "hard_max_bytes",
        "is_throttled",
        "isolation",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "only_leader",
        "preferred_replica",
        "replica_id",
    )

    def __init__(
        self,
        *,
        replica_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
        hard_max_bytes: bool,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        only_leader: bool = True,
        preferred_replica: Callable[[Partition, int], int | None] | None = None,
        is_throttled: Callable[[Partition], bool] | None = None,
    ) -> None:
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation if replica_id == CONSUMER else Isolation.LOG_END
        self.hard_max_bytes = hard_max_bytes
        """True for Fetch v0 to v2: not even the first batch may exceed the limits."""
        self.broker_epoch = broker_epoch
        """The follower's broker epoch (KIP-903)."""
        self.only_leader = only_leader
        """False if the client may read from a follower."""
        self.preferred_replica = preferred_replica
        """Returns the preferred read replica for a partition that this broker leads, and an offset (KIP-392)."""
        self.is_throttled = is_throttled
        """Whether a partition is throttled for this follower."""


class FetchedPartition:
    """What was read from one partition, or the error."""

    __slots__ = (
        "diverging",
        "error",
        "high_watermark",
        "info",
        "last_stable_offset",
        "log_start_offset",
        "preferred_replica",
        "request",
    )

    def __init__(
        self,
        request: FetchPartition,
        *,
        info: LogReadInfo | None = None,
        error: Exception | None = None,
        log: Log | None = None,
        diverging: tuple[int, int] | None = None,
        preferred_replica: int | None = None,
    ) -> None:
        self.request = request
        self.info = info
        self.error = error
        self.diverging = diverging
        """(epoch, end offset) at which the client's log diverges from this broker's."""
        self.preferred_replica = preferred_replica
        self.high_watermark = UNKNOWN_OFFSET if log is None else log.high_watermark
        self.last_stable_offset = UNKNOWN_OFFSET if log is None else log.last_stable_offset
        self.log_start_offset = UNKNOWN_OFFSET if log is None else log.log_start_offset

    @property
    def size_bytes(self) -> int:
        """The size of the records in bytes."""
        return 0 if self.info is None else self.info.size_bytes


def read_partitions(
    params: FetchParams,
    requests: Iterable[FetchPartition],
    get_partition: GetPartition,
    *,
    is_waited_for: bool = False,
    cold: list[WarmUp] | None = None,
) -> list[FetchedPartition]:
    """Read every partition of the request, within the limits.

    is_waited_for: the request has waited; the leader already knows what the request reports about a follower.
    cold: do not wait for the disk, but add here what must be read first. If something was added, the result is void.
    """
    remaining = params.max_bytes
    min_one_message = not params.hard_max_bytes
    tell = params.replica_id != CONSUMER and not is_waited_for
    fetched = []
    for request in requests:
        one = _read_partition(
            params, request, get_partition, min(remaining, request.max_bytes), min_one_message, tell, cold
        )
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
    tell: bool,
    cold: list[WarmUp] | None,
) -> FetchedPartition:
    try:
        partition = get_partition(request.topic, request.partition, request.topic_id)
        epoch = request.current_leader_epoch
        log = partition.leader_log(epoch) if params.only_leader else partition.any_log(epoch)
        if params.preferred_replica is not None and partition.is_leader:
            preferred = params.preferred_replica(partition, request.offset)
            if preferred is not None:
                return FetchedPartition(request, info=NOTHING, log=log, preferred_replica=preferred)
        if request.last_fetched_epoch >= 0:
            diverging = _diverging_epoch(log, request)
            if diverging is not None:
                return FetchedPartition(request, info=NOTHING, log=log, diverging=diverging)
        if params.replica_id != CONSUMER:
            partition.check_follower(params.replica_id, epoch)
            if params.is_throttled is not None and params.is_throttled(partition):
                max_bytes, min_one_message = 0, False
        info = partition.read_log(
            log,
            request.offset,
            max_bytes,
            isolation=params.isolation,
            min_one_message=min_one_message,
            may_wait=cold is None,
        )
        if info.first_batch_incomplete and not params.hard_max_bytes:
            info = LogReadInfo(None, True, info.aborted_transactions)  # a part of a batch is useless to a client
        if tell:
            partition.follower_fetches(params.replica_id, request.offset, request.log_start_offset, params.broker_epoch)
        fetched = FetchedPartition(request, info=info, log=log)
        if partition.is_high_watermark_behind and params.replica_id == CONSUMER:
            if not info.size_bytes:
                raise OffsetNotAvailableError(
                    f"{request.topic}-{request.partition} is known to be committed up to {log.high_watermark} only, "
                    f"before the start of the leader epoch at {partition.leader_epoch_start_offset}"
                )
            fetched.high_watermark = fetched.last_stable_offset = UNKNOWN_OFFSET
    except ColdReadError as error:
        assert cold is not None
        cold.append(error.warm_up)
        return FetchedPartition(request, info=NOTHING)
    except (ReplicationError, StorageError, ProtocolError, OSError) as error:
        return FetchedPartition(request, error=error)
    return fetched


NOTHING = LogReadInfo(None)


def _diverging_epoch(log: Log, request: FetchPartition) -> tuple[int, int] | None:
    """Return (epoch, end offset) at which the client's log diverges from `log`; None if it is a prefix of `log`.

    Raises OffsetOutOfRangeError if the client's epoch is unknown here, or the requested offset is deleted.
    """
    epoch, end_offset = log.end_offset_for_epoch(request.last_fetched_epoch)
    if end_offset == UNDEFINED_EPOCH_OFFSET or request.offset < log.log_start_offset:
        raise OffsetOutOfRangeError(request.offset, log.log_start_offset, log.log_end_offset)
    if epoch < request.last_fetched_epoch or end_offset < request.offset:
        return epoch, end_offset
    return None


class DelayedFetch:
    """A Fetch that waits until `min_bytes` are available, or until reading a partition fails."""

    __slots__ = ("_get_partition", "_params", "_unknown", "_wanted")

    def __init__(
        self,
        params: FetchParams,
        wanted: Callable[[], Sequence[FetchPartition]],
        unknown: Collection[FetchPartition],
        get_partition: GetPartition,
    ) -> None:
        """wanted: returns the partitions to read; a session may wake more of them during the wait.

        unknown: the requests that cannot end the wait.
        """
        self._params = params
        self._wanted = wanted
        self._unknown = unknown
        self._get_partition = get_partition

    def is_satisfied(self) -> bool:
        """See `DelayedOperation`."""
        params = self._params
        available = 0
        for request in self._wanted():
            if request in self._unknown:
                continue
            try:
                partition = self._get_partition(request.topic, request.partition, request.topic_id)
                epoch = request.current_leader_epoch
                log = partition.leader_log(epoch) if params.only_leader else partition.any_log(epoch)
                if params.isolation.visible_end(log) <= request.offset <= log.log_end_offset:
                    continue
                if params.is_throttled is not None and params.is_throttled(partition):
                    continue
                if params.min_bytes <= 1:
                    return True
                info = partition.read_log(
                    log, request.offset, request.max_bytes, isolation=params.isolation, min_one_message=True
                )
            except (ReplicationError, StorageError, ProtocolError, OSError):
                return True
            available += info.size_bytes
            if available >= params.min_bytes:
                return True
        return False

    def complete(self) -> list[FetchedPartition]:
        """See `DelayedOperation`."""
        return read_partitions(self._params, self._wanted(), self._get_partition, is_waited_for=True)
