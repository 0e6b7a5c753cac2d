"""What a Fetch brought for one partition: whole batches, and of these the records that a reader may see.

A broker cuts its answer by bytes, so the last batch may be incomplete: it is left for the next fetch. A
batch may begin before the offset asked for: the earlier records are dropped. Control batches are never
shown, and with isolation level read_committed neither are batches of aborted transactions: the answer lists
(producer id, first offset) of each, which holds from that offset up to the producer's ABORT marker
(KIP-98).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from client.topic_partition import TopicPartition
from protocol.buffer import Buffer
from protocol.control_records import ControlRecordType, decode_control_key
from protocol.message_set import LegacyMessage, iter_mixed
from protocol.record import Header
from protocol.record_batch import RecordBatch

if TYPE_CHECKING:
    import pyarrow as pa


class ConsumerRecord(NamedTuple):
    """A record as a reader gets it.

    `key` and `value` are bytes or None, or what a consumer's deserializers have made of them.
    `timestamp` is ms since the epoch, -1 for none; `timestamp_type` 0 for the producer's time, 1 for the
    broker's; `headers` are (name, value) pairs.
    """

    topic: str
    partition: int
    timestamp_type: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: tuple[Header, ...]


class FetchedBatches:
    """Batches of one partition in offset order, as one Fetch brought them.

    `batches` are views into `data`, the answer. `first_offset` is the offset asked for, `next_offset` the one to
    fetch next. `records()` gives what may be seen. `size_bytes` is what the batches take in memory.
    """

    __slots__ = (
        "_aborted",
        "_check_crcs",
        "batches",
        "data",
        "first_offset",
        "high_watermark",
        "next_offset",
        "partition",
        "size_bytes",
    )

    def __init__(
        self,
        partition: TopicPartition,
        first_offset: int,
        records: Buffer,
        *,
        high_watermark: int,
        aborted: Sequence[tuple[int, int]] = (),
        check_crcs: bool = True,
    ) -> None:
        """Split `records`. `aborted` are (producer id, first offset); empty with read_uncommitted.

        Raises CorruptRecordError for a batch that is no batch.
        """
        self.partition = partition
        self.data = records
        self.first_offset = first_offset
        self.high_watermark = high_watermark
        # LegacyMessage: message format 0 or 1, which a broker keeps for old topics.
        self.batches: list[RecordBatch | LegacyMessage] = []
        self._aborted = sorted(aborted, key=lambda pair: pair[1])
        self._check_crcs = check_crcs
        self.next_offset = first_offset
        self.size_bytes = 0
        for batch in iter_mixed(records, partial=True):
            self.batches.append(batch)
            self.next_offset = max(self.next_offset, batch.next_offset)
            self.size_bytes += batch.size_bytes

    def records(self) -> Iterator[ConsumerRecord]:
        """The records from `first_offset` on. Raises CorruptRecordError, InvalidRecordError where one is
        malformed.
        """
        topic, number = self.partition
        first = self.first_offset
        for batch in self.visible_batches():
            fields = (topic, number, int(batch.timestamp_type))
            records: Iterable[ConsumerRecord]
            if isinstance(batch, LegacyMessage):
                records = (tuple.__new__(ConsumerRecord, fields + record) for record in batch.records())
            else:
                records = batch.records_as(ConsumerRecord, fields)
                if batch.base_offset >= first:
                    yield from records
                    continue
            yield from (record for record in records if record.offset >= first)

    def to_arrow(self, columns: Collection[str] | None = None) -> "pa.Table":
        """The same records as an Arrow table (see client.arrow.tables), for which pyarrow and numpy must be installed.

        `columns`: some of topic, partition, offset, timestamp, timestamp_type, key, value, headers; None for all. What
        is not asked for is not decoded.
        """
        from client.arrow.tables import to_arrow

        return to_arrow([self], columns)

    def visible_batches(self) -> Iterator[RecordBatch | LegacyMessage]:
        """The batches without control batches and aborted transactions, each with its CRC checked."""
        aborting: set[int] = set()
        aborted = iter(self._aborted)
        following = next(aborted, None)
        for batch in self.batches:
            if self._check_crcs:
                batch.check_crc()
            if isinstance(batch, LegacyMessage):
                yield batch
                continue
            while following is not None and following[1] <= batch.last_offset:
                aborting.add(following[0])
                following = next(aborted, None)
            if batch.is_control:
                if batch.producer_id in aborting and _is_abort(batch):
                    aborting.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborting):
                yield batch


def _is_abort(batch: RecordBatch) -> bool:
    """Whether a control batch is an ABORT marker."""
    key = next((record.key for record in batch.records()), None)
    return decode_control_key(key) == ControlRecordType.ABORT
