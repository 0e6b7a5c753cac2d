"""The result of a Fetch for one partition: complete batches, and the records that a reader may see.

A broker limits its response by bytes, so the last batch may be incomplete: the next Fetch gets it. A batch may start
before the requested offset: the earlier records are dropped. Readers never see control batches. With isolation level
read_committed they do not see batches of aborted transactions either: the response contains the (producer id, first
offset) of each aborted transaction, which ends at the producer's ABORT marker (KIP-98).
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
    """A record that a reader returns.

    `key` and `value` are bytes or None, or the results of the consumer's deserializers. `timestamp` is in ms since the
    epoch, -1 for none. `timestamp_type` is 0 for the producer's time, 1 for the broker's. `headers` are (name, value)
    pairs.
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
    """The batches of one partition in one Fetch response, in offset order.

    `batches` are views into `data`, the response. `first_offset` is the requested offset, `next_offset` the one to
    fetch next. `records()` returns the visible records. `size_bytes` is the size of the batches in memory.
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

        Raises CorruptRecordError for bytes that are not a batch.
        """
        self.partition = partition
        self.data = records
        self.first_offset = first_offset
        self.high_watermark = high_watermark
        # LegacyMessage: message format 0 or 1, in topics of old brokers.
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
        """Yield the visible records from `first_offset` on.

        Raises CorruptRecordError, and InvalidRecordError for a malformed record.
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
        """Return the same records as an Arrow table (see client.arrow.tables). Needs pyarrow and numpy.

        `columns`: some of topic, partition, offset, timestamp, timestamp_type, key, value, headers; None for all. Only
        these columns are decoded.
        """
        from client.arrow.tables import to_arrow  # pyarrow is optional, and takes 0.1 s and 40 MB

        return to_arrow([self], columns)

    def visible_batches(self) -> Iterator[RecordBatch | LegacyMessage]:
        """Yield the batches except control batches and aborted transactions. Checks the CRC of each (`check_crcs`)."""
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
