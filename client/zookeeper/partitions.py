"""The partitions that a ZooKeeper consumer owns: they are fetched ahead for its streams; their positions."""

from collections.abc import Mapping

from client.consumer.fetched import FetchedBatches
from client.consumer.fetcher import Fetcher
from client.consumer.options import ReaderOptions
from client.consumer.reader_state import PartitionState, Position
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from client.zookeeper.stream import ConsumerStream, StreamGate


class OwnedPartitions:
    """The owned partitions, and the fetcher that reads them."""

    def __init__(self, cluster: Cluster, gate: StreamGate, options: ReaderOptions, reset: Position) -> None:
        """`reset`: "beginning" or "end", where a partition without an offset starts."""
        self._cluster = cluster
        self._gate = gate
        # The owned partitions, or none while nothing may be read.
        self._fetched_states: dict[TopicPartition, PartitionState] = {}
        self._reset = reset
        self._owned: dict[TopicPartition, PartitionState] = {}
        self._streams: dict[TopicPartition, ConsumerStream] = {}
        # The last known committed offsets; a partition without an entry was never committed.
        self._committed: dict[TopicPartition, int] = {}
        self.fetcher = Fetcher(cluster, self._fetched_states, options, on_fetched=self.fetched, on_error=self.failed)

    def __len__(self) -> int:
        return len(self._owned)

    def names(self) -> list[TopicPartition]:
        """The partitions, sorted."""
        return sorted(self._owned)

    def start(self, streams: Mapping[TopicPartition, ConsumerStream], offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions for these streams, from the group's offsets, or by the reset rule if there is none."""
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
        """Stop to fetch and to return records, and drop records that were not returned. Positions are kept."""
        self._gate.shut()
        self._fetched_states.clear()
        for state in self._owned.values():
            state.generation += 1  # answers in flight are ignored
        for stream in self._streams.values():
            stream.clear()

    def drop(self) -> list[TopicPartition]:
        """Own no partitions any more. Return those that were owned."""
        self.stop()
        dropped = self.names()
        self._cluster.untrack({partition.topic for partition in dropped})
        self._owned.clear()
        self._streams.clear()
        self._committed.clear()
        return dropped

    # ---- positions

    def positions(self, *, with_in_hand: bool) -> dict[TopicPartition, int]:
        """The offsets to commit: those that have changed since the last commit. `with_in_hand`: as if records in hand
        were handled.
        """
        found = {}
        for partition, state in self._owned.items():
            offset, committed = state.position, self._committed.get(partition)
            if offset is None or offset == committed:
                continue  # also if the program has committed the record in hand: this is not undone
            if not with_in_hand and (in_hand := self._streams[partition].in_hand(state)) is not None:
                offset = in_hand
            if offset != committed:
                found[partition] = offset
        return found

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that these offsets were committed."""
        self._committed.update({partition: offset for partition, offset in offsets.items() if partition in self._owned})

    # ---- callbacks of the fetcher

    def fetched(self, state: PartitionState, batches: FetchedBatches) -> None:
        """Batches of a partition were fetched."""
        if self._owned.get(state.partition) is state:
            self._streams[state.partition].add(state, batches)
            self._gate.ring()

    def failed(self, error: BaseException) -> None:
        """A fetch or a lookup failed. A retriable error is ignored, as the fetcher retries; streams raise others."""
        if not isinstance(error, KafkaError) or not error.retriable:
            self._gate.fail(error)
