"""The partitions that a ZooKeeper consumer owns: fetched ahead, dealt out to its streams, and how far each has come."""

from collections.abc import Mapping

from client.consumer.fetched import FetchedBatches
from client.consumer.fetcher import Fetcher
from client.consumer.reader_state import PartitionState, Position
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from client.zookeeper.stream import ConsumerStream, StreamGate


class OwnedPartitions:
    """What is owned. `states` is what the fetcher works on: it is empty while nothing may be read."""

    def __init__(
        self, cluster: Cluster, gate: StreamGate, states: dict[TopicPartition, PartitionState], reset: Position
    ) -> None:
        """`reset`: "beginning" or "end", where a partition without an offset starts."""
        self._cluster = cluster
        self._gate = gate
        self._fetched_states = states
        self._reset = reset
        self._owned: dict[TopicPartition, PartitionState] = {}
        self._streams: dict[TopicPartition, ConsumerStream] = {}
        # As far as is known; what is not there has never been committed.
        self._committed: dict[TopicPartition, int] = {}
        # Set once, right after this is made: the fetcher needs what is here, and is needed.
        self.fetcher: Fetcher

    def __len__(self) -> int:
        return len(self._owned)

    def names(self) -> list[TopicPartition]:
        """The partitions, sorted."""
        return sorted(self._owned)

    def start(self, streams: Mapping[TopicPartition, ConsumerStream], offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions for these streams: from the group's offsets, or where there is none as configured."""
        assert not self._owned
        self._streams = dict(streams)
        self._committed = dict(offsets)
        self._owned = {
            partition: PartitionState(partition, offsets.get(partition, self._reset)) for partition in streams
        }
        self._fetched_states.update(self._owned)
        self._cluster.track({partition.topic for partition in streams})
        self._gate.open()
        self.fetcher.wake()

    def stop(self) -> None:
        """Hand out and fetch no more; what was fetched and not handed out is forgotten. Positions stay known."""
        self._gate.shut()
        self._fetched_states.clear()
        for state in self._owned.values():
            state.generation += 1  # answers under way are for nobody
        for stream in self._streams.values():
            stream.clear()

    def drop(self) -> list[TopicPartition]:
        """Own nothing any more; what was owned."""
        self.stop()
        dropped = self.names()
        self._cluster.untrack({partition.topic for partition in dropped})
        self._owned.clear()
        self._streams.clear()
        self._committed.clear()
        return dropped

    # ---- how far they are

    def positions(self, *, with_in_hand: bool) -> dict[TopicPartition, int]:
        """The offsets to be committed: those that have changed since. `with_in_hand`: as if records in hand were
        done.
        """
        found = {}
        for partition, state in self._owned.items():
            offset, committed = state.position, self._committed.get(partition)
            if offset is None or offset == committed:
                continue  # also where the record in hand was committed by the program: that is not taken back
            if not with_in_hand and (in_hand := self._streams[partition].in_hand(state)) is not None:
                offset = in_hand
            if offset != committed:
                found[partition] = offset
        return found

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These offsets have been committed."""
        self._committed.update({partition: offset for partition, offset in offsets.items() if partition in self._owned})

    # ---- what the fetcher tells

    def fetched(self, state: PartitionState, batches: FetchedBatches) -> None:
        """Batches of a partition have come."""
        if self._owned.get(state.partition) is state:
            self._streams[state.partition].add(state, batches)
            self._gate.ring()

    def failed(self, error: BaseException) -> None:
        """Something was not fetched, or not looked up. What may go away is tried again, anything else told."""
        if not isinstance(error, KafkaError) or not error.retriable:
            self._gate.fail(error)
