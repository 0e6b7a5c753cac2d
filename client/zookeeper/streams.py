"""The streams of a ZooKeeper consumer: one for each thread, and all as a single one."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from client.consumer.fetched import ConsumerRecord
from client.zookeeper.assignment import ConsumerThread
from client.zookeeper.stream import ConsumerStream, StreamGate
from client.zookeeper.subscription import Subscription


class ConsumerStreams:
    """`by_topic`: the streams of each topic; with a pattern, streams for all topics under its text."""

    def __init__(self, subscription: Subscription, gate: StreamGate, on_taken: Callable[[], None]) -> None:
        self._is_static = subscription.is_static
        self.by_topic: Mapping[str, tuple[ConsumerStream, ...]] = MappingProxyType(
            {
                topic: tuple(ConsumerStream(gate, on_taken) for _ in range(count))
                for topic, count in subscription.threads.items()
            }
        )
        self._all = [stream for streams in self.by_topic.values() for stream in streams]
        self._turn = 0

    def of(self, topic: str, thread: ConsumerThread) -> ConsumerStream:
        """The stream of a thread for a topic."""
        return self.by_topic[topic][thread.number] if self._is_static else self._all[thread.number]

    def take(self) -> ConsumerRecord | None:
        """Return the next record from the streams in turn; None if the gate is closed or no record was fetched."""
        count = len(self._all)
        self._all[self._turn].finish()
        for step in range(1, count + 1):
            turn = (self._turn + step) % count
            record = self._all[turn].take()
            if record is not None:
                self._turn = turn
                return record
        return None
