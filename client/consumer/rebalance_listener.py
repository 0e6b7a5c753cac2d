"""Callbacks of the application for rebalances."""

import inspect
from collections.abc import Awaitable, Callable, Sequence

from client.topic_partition import TopicPartition

PartitionsCallback = Callable[[Sequence[TopicPartition]], Awaitable[None] | None]


class RebalanceListener:
    """Subclass it and override the methods that you need, as plain or async methods.

    The consumer returns no records during a call. The list of partitions is never empty. A callback may seek, pause and
    commit. It must not ask for records: that call would wait for the callback itself.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """The group has assigned these partitions to this member; each starts at its committed offset."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """This member is about to give up these partitions: the last moment to finish work and to commit."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """The group has removed this member; other members may have these partitions already, so commits fail.

        Calls `on_partitions_revoked` unless overridden.
        """
        return self.on_partitions_revoked(partitions)


async def call(callback: PartitionsCallback, partitions: Sequence[TopicPartition]) -> None:
    """Call the callback and, if it is async, wait for it."""
    result = callback(partitions)
    if inspect.isawaitable(result):
        await result
