"""DeleteRecords: the answer waits until every live replica's log begins where it was asked to (KIP-107)."""

from __future__ import annotations

from collections.abc import Mapping

from protocol.uuid import ZERO_UUID
from replication.errors import DeletionTimedOutError, ReplicationError
from replication.fetch import GetPartition


class DelayedDeleteRecords:
    """Partitions whose records were deleted by the leader: the offset that each replica's log has to begin at."""

    __slots__ = ("_get_partition", "_required")

    def __init__(self, required: Mapping[tuple[str, int], int], get_partition: GetPartition) -> None:
        self._required = required
        self._get_partition = get_partition

    def _low_watermark(self, key: tuple[str, int]) -> int | ReplicationError:
        try:
            return self._get_partition(*key, ZERO_UUID).low_watermark()
        except ReplicationError as error:
            return error

    def is_satisfied(self) -> bool:
        """See `DelayedOperation`."""
        return all(
            isinstance(found := self._low_watermark(key), ReplicationError) or found >= offset
            for key, offset in self._required.items()
        )

    def complete(self) -> dict[tuple[str, int], int | ReplicationError]:
        """The low watermark of each partition, or why there is none."""
        outcomes: dict[tuple[str, int], int | ReplicationError] = {}
        for key, offset in self._required.items():
            found = self._low_watermark(key)
            if not isinstance(found, ReplicationError) and found < offset:
                found = DeletionTimedOutError(f"a replica of {key[0]}-{key[1]} begins at {found}, not yet at {offset}")
            outcomes[key] = found
        return outcomes
