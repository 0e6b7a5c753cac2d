"""A stream's progress, committed to a consumer group without members, for tools that show a group's lag.

The query never starts from these offsets, only from its checkpoint; so a failed commit is only a warning.
"""

import warnings

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.errors import KafkaError
from protocol.errors import ProtocolError
from spark_connector.topic_offsets import Offsets


class GroupProgress:
    """Commits progress to a group; None: no commits."""

    def __init__(self, group_id: str | None) -> None:
        self._group_id = group_id
        self._committed: Offsets = {}

    def is_new(self, done: Offsets) -> bool:
        """Whether there are offsets to commit."""
        return self._group_id is not None and done != self._committed

    async def commit(self, admin: Admin, done: Offsets) -> None:
        """Commit all offsets that have changed. A failure is a warning."""
        assert self._group_id is not None
        new = {
            partition: OffsetAndMetadata(offset)
            for partition, offset in done.items()
            if self._committed.get(partition) != offset
        }
        try:
            outcomes = await admin.alter_group_offsets(self._group_id, new)
        except (KafkaError, ProtocolError) as error:
            self._warn(str(error))
            return
        failed = {str(partition): str(error) for partition, error in outcomes.items() if error is not None}
        if failed:
            self._warn("; ".join(failed.values()))
        else:
            self._committed = dict(done)

    def _warn(self, why: str) -> None:
        text = f"progress is not committed to group {self._group_id} (commitGroupId); the query continues: {why}"
        warnings.warn(text, stacklevel=3)
