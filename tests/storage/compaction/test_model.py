"""Histories of a compacted log against a model: which record is there after which compaction, exactly.

The model knows every record that was appended, whether its transaction was aborted, and the delete horizon of every
batch.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from protocol.compression import CompressionType
from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from protocol.record_batch_builder import RecordBatchBuilder
from storage.compaction.cleanable import cleanable_range
from storage.compaction.run import compact_log
from storage.log.append import AppendOrigin
from support.counts import count
from support.log_dirs import BASE_TIME_MS, look_up, open_log, read_batches, read_records
from support.memory_disk import memory_directory

pytestmark = pytest.mark.counted

RETENTION_MS = 1000
KEYS = [b"a", b"b", b"c", b"d" * 70]
PLAIN, IDEMPOTENT, TRANSACTIONAL = range(3)

batches = st.fixed_dictionaries(
    {
        "records": st.lists(
            st.tuples(st.sampled_from(KEYS), st.integers(0, 3), st.integers(-5, 5)), min_size=1, max_size=5
        ),
        "kind": st.sampled_from([PLAIN, PLAIN, IDEMPOTENT, TRANSACTIONAL, TRANSACTIONAL]),
        "producer": st.integers(0, 1),
        "codec": st.sampled_from([CompressionType.NONE, CompressionType.NONE, CompressionType.LZ4]),
    }
)
operations = st.one_of(
    batches.map(lambda one: ("append", one)),
    batches.map(lambda one: ("append", one)),
    batches.map(lambda one: ("append", one)),
    st.tuples(st.just("end"), st.tuples(st.integers(0, 1), st.booleans())),
    st.tuples(st.just("roll"), st.none()),
    st.tuples(
        st.just("compact"), st.tuples(st.sampled_from([0, 100, 5000]), st.sampled_from([24 * 3, 24 * 6, 1 << 20]))
    ),
    st.tuples(st.just("reopen"), st.booleans()),
)


class Record:
    def __init__(self, offset, batch, timestamp, key, value, producer):
        self.offset, self.batch, self.timestamp = offset, batch, timestamp
        self.key, self.value, self.producer = key, value, producer
        self.aborted = False


class Model:
    def __init__(self, root):
        self.directory = root / "t-0"
        self.now_ms = BASE_TIME_MS
        self.records = []  # that must be there
        self.horizons = {}  # base offset of a batch → ms
        self.sequences = {}
        self.open_transactions = {}  # producer id → its records
        self.checkpoint = 0
        self.log = self.open(clean=True)

    def open(self, *, clean):
        log = open_log(
            self.directory,
            clean=clean,
            now_ms=BASE_TIME_MS,
            retention_ms=-1,
            segment_bytes=400,
            index_interval_bytes=60,
            cleanup_policy=("compact",),
            delete_retention_ms=RETENTION_MS,
        )
        log.now_ms = lambda: self.now_ms
        log.commit_all()
        return log

    def append(self, one):
        kind = one["kind"]
        producer_id = -1 if kind == PLAIN else one["producer"] + (10 if kind == IDEMPOTENT else 20)
        sequence = self.sequences.get(producer_id, 0)
        builder = RecordBatchBuilder(
            0,
            one["codec"],
            producer_id=producer_id,
            producer_epoch=-1 if kind == PLAIN else 0,
            base_sequence=-1 if kind == PLAIN else sequence,
            transactional=kind == TRANSACTIONAL,
        )
        base = self.log.log_end_offset
        new = []
        for number, (key, size, skew) in enumerate(one["records"]):
            offset = base + number
            value = None if size == 0 else b"%d;" % offset * size * 5
            timestamp = self.now_ms + skew
            builder.append(timestamp, key, value)
            new.append(Record(offset, base, timestamp, key, value, producer_id))
        data = builder.build()
        if len(data) > 400:
            return
        self.log.append_as_leader(data, 0)
        self.records += new
        if kind != PLAIN:
            self.sequences[producer_id] = sequence + len(new)
        if kind == TRANSACTIONAL:
            self.open_transactions.setdefault(producer_id, []).extend(new)
        self.log.commit_all()

    def end(self, choice):
        producer_id, committed = choice[0] + 20, choice[1]
        if producer_id not in self.open_transactions:
            return
        kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
        marker = end_marker_batch(
            EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=BASE_TIME_MS - 100
        )
        self.log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)
        self.log.commit_all()
        for record in self.open_transactions.pop(producer_id):
            record.aborted = not committed

    def roll(self, _):
        self.log.roll()

    def compact(self, choice):
        later_ms, memory = choice
        self.now_ms += later_ms
        dirty = cleanable_range(self.log, self.checkpoint)
        assert dirty.first_dirty_offset == self.checkpoint
        assert not any(
            record.offset < dirty.end_offset for records in self.open_transactions.values() for record in records
        )
        producers = self.producers()
        result = compact_log(
            self.log, dirty.first_dirty_offset, dirty.end_offset, dedupe_buffer_bytes=memory, dedupe_load_factor=1.0
        )
        end = result.end_offset
        if dirty.first_dirty_offset < dirty.end_offset:
            assert dirty.first_dirty_offset < end <= dirty.end_offset
        else:
            assert end == dirty.first_dirty_offset
        if memory > 1000:
            assert end == dirty.end_offset
        self.remove(dirty, end)
        self.checkpoint = end
        assert self.producers() == producers
        self.check()

    def remove(self, dirty, end):
        """What the compaction must have done."""
        if dirty.first_dirty_offset == dirty.end_offset:
            return
        latest = {
            record.key: record.offset
            for record in self.records
            if dirty.first_dirty_offset <= record.offset < end and not record.aborted
        }
        ends = [segment.base_offset for segment in self.log.segments]
        touched = min([base for base in ends if base >= end])  # a segment is rewritten as a whole
        kept = []
        with_tombstone = set()
        for record in self.records:
            if record.aborted and record.offset < touched:
                continue
            horizon = self.horizons.get(record.batch)
            if record.offset < end:
                if record.offset < latest.get(record.key, -1):
                    continue
                if record.value is None and horizon is not None and horizon <= self.now_ms:
                    continue
            kept.append(record)
            if record.value is None and record.offset < touched and horizon is None:
                with_tombstone.add(record.batch)
        for base in with_tombstone:
            self.horizons[base] = self.now_ms + RETENTION_MS
        self.records = kept

    def producers(self):
        """Without timestamps and coordinator epochs: those of records and markers that are gone are not known again."""
        return {
            key: (entry.producer_epoch, entry.batches[-1]._replace(timestamp=0), entry.current_txn_first_offset)
            for key, entry in self.log.producers.producers.items()
        }

    def reopen(self, clean):
        producers = self.producers()
        if clean:
            self.log.close()
        else:
            self.log.release()
            for snapshot in self.directory.glob("*.snapshot"):
                snapshot.unlink()  # so that everything is replayed
        self.log = self.open(clean=clean)
        assert self.producers() == producers
        self.check()

    def check(self):
        found = read_records(self.log)
        assert [(each.offset, each.timestamp, each.key, each.value) for each in found] == [
            (each.offset, each.timestamp, each.key, each.value) for each in self.records
        ]
        for each in read_batches(self.log):
            each.check_crc()
            if each.base_offset in self.horizons and each.record_count:
                assert each.delete_horizon_ms == self.horizons[each.base_offset]
            elif not each.is_control:
                assert each.delete_horizon_ms is None
        self.check_lookups(found)

    def check_lookups(self, found):
        """From every offset one gets on to the next record there is; timestamps are found by records that are there."""
        following = {each.offset: each for each in found}
        next_record = None
        for offset in range(self.log.log_end_offset - 1, -1, -1):
            next_record = following.get(offset, next_record)
            if next_record is not None:
                records = read_records(self.log, offset)
                assert records[0].offset == next_record.offset
        if found:
            largest = max(each.timestamp for each in found)
            first = next(each.offset for each in found if each.timestamp == largest)
            assert look_up(self.log, None)[:2] == (largest, first)
            for timestamp in {each.timestamp for each in found}:
                first = next(each for each in found if each.timestamp >= timestamp)
                assert look_up(self.log, timestamp)[:2] == (first.timestamp, first.offset)


@pytest.mark.timeout(0)
@given(st.lists(operations, min_size=5, max_size=40))
@settings(
    max_examples=count(60, 1000),
    suppress_health_check=list(HealthCheck),
    print_blob=False,
    database=None,
)
def test_histories(history):
    with memory_directory("compaction-model") as root:
        model = Model(root)
        try:
            for name, argument in [*history, ("roll", None), ("compact", (0, 1 << 20)), ("reopen", False)]:
                getattr(model, name)(argument)
        finally:
            model.log.release()
