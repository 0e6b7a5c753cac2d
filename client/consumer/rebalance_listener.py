"""What an application may do when partitions come and go."""

import inspect
from collections.abc import Awaitable, Callable, Sequence

from client.topic_partition import TopicPartition

PartitionsCallback = Callable[[Sequence[TopicPartition]], Awaitable[None] | None]


class RebalanceListener:
    """Subclass it and override what you need, as plain or as async methods.

    Each is called while no record is handed out, with the partitions concerned, never with none. Seeking, pausing and
    committing are allowed in them; asking for records is not, it would wait for itself.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are ours from now on, each at its committed offset."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are about to go to other members: the last moment to finish and to commit."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These may be others' already, as the group has given us up: it is too late to commit.

        Does what `on_partitions_revoked` does unless it is overridden.
        """
        return self.on_partitions_revoked(partitions)


async def call(callback: PartitionsCallback, partitions: Sequence[TopicPartition]) -> None:
    """Call it, and wait for it where it is async."""
    result = callback(partitions)
    if inspect.isawaitable(result):
        await result
