"""DeleteRecords: delay the answer until the log of every live replica starts at the requested offset (KIP-107)."""

from __future__ import annotations

from collections.abc import Mapping

from protocol.uuid import ZERO_UUID
from replication.errors import DeletionTimedOutError, ReplicationError
from replication.fetch import GetPartition


class DelayedDeleteRecords:
    """Waits until the log of each live replica starts at or after the offset that is required for its partition."""

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
        """Return the low watermark of each partition, or the error."""
        outcomes: dict[tuple[str, int], int | ReplicationError] = {}
        for key, offset in self._required.items():
            found = self._low_watermark(key)
            if not isinstance(found, ReplicationError) and found < offset:
                found = DeletionTimedOutError(f"a replica of {key[0]}-{key[1]} starts at {found}, not yet at {offset}")
            outcomes[key] = found
        return outcomes
