"""Sequences of operations on a log against a model of it: a list of batches."""

import logging
import shutil
import tempfile
from functools import partial
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocol.compression import CompressionType
from protocol.record_batch import BATCH_HEADER_SIZE
from storage.errors import OffsetOutOfRangeError, OutOfOrderSequenceError
from support.counts import count
from support.log_dirs import BASE_TIME_MS, batch, iter_whole, open_log

pytestmark = pytest.mark.counted

NOW_MS = BASE_TIME_MS + 10_000
PRODUCERS = (100, 200)


class Stored:
    """A batch of the model: `size` bytes, records as (offset, timestamp, value)."""

    def __init__(self, data, epoch, base_offset, records, producer):
        self.size = len(data)
        self.epoch = epoch
        self.base_offset = base_offset
        self.records = records
        self.producer = producer  # (id, epoch, first sequence) or None

    @property
    def last_offset(self):
        return self.records[-1][0]


class LogMachine(RuleBasedStateMachine):
    """The log in `self.log`; what it must hold in `self.batches`, from `self.start` to `self.end`."""

    def __init__(self):
        super().__init__()
        logging.getLogger("storage").setLevel(logging.CRITICAL)
        self.root = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.batches = []
        self.deleted = []  # batches of segments that retention removed: their producers are still known
        self.start = self.end = self.high_watermark = 0
        self.epochs = []
        self.checkpoint = (0, 0)  # recovery point, log start offset
        self.clock = 0

    @initialize(
        segment_bytes=st.sampled_from([150, 400, 1000, 100_000]),
        index_interval_bytes=st.sampled_from([1, 100, 1000]),
        segment_ms=st.sampled_from([20, 10_000]),
    )
    def begin(self, **options):
        self.options = options
        self.log = self.open(clean=True)

    def open(self, *, clean):
        recovery_point, start = self.checkpoint
        return open_log(
            self.root / "t-0",
            clean=clean,
            now_ms=NOW_MS,
            recovery_point=recovery_point,
            log_start_offset=start,
            retention_ms=-1,
            max_message_bytes=100_000,
            **self.options,
        )

    def teardown(self):
        logging.getLogger("storage").setLevel(logging.NOTSET)
        self.log.release()
        shutil.rmtree(self.root)

    def make(self, sizes, timestamp, producer, codec, base_offset=0, epoch=-1):
        values = [(b"%d." % (self.end + n)) * size for n, size in enumerate(sizes)]
        data = batch(
            *values,
            timestamp=BASE_TIME_MS + self.clock + timestamp,
            codec=codec,
            producer=producer or (-1, -1, -1),
            base_offset=base_offset,
            leader_epoch=epoch,
        )
        self.clock += 3
        return data, values

    def store(self, data, values, epoch, base_offset, timestamp, producer):
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, base_offset))
        records = [(base_offset + n, timestamp + n, value) for n, value in enumerate(values)]
        self.batches.append(Stored(data, epoch, base_offset, records, producer))
        self.end = base_offset + len(values)

    @property
    def epoch(self):
        """The newest in the log. What leads later never writes a lower one behind it."""
        return max([0, *(epoch for epoch, _ in self.epochs), *(each.epoch for each in self.batches)])

    def fits(self, data):
        return len(data) <= self.options["segment_bytes"]

    sizes = st.lists(st.integers(1, 40), min_size=1, max_size=4)
    codecs = st.sampled_from([CompressionType.NONE, CompressionType.NONE, CompressionType.GZIP])
    skew = st.sampled_from([0, 0, 0, -40, 25])

    @rule(sizes=sizes, skew=skew, codec=codecs, epoch_up=st.booleans())
    def append(self, sizes, skew, codec, epoch_up):
        timestamp = BASE_TIME_MS + self.clock + skew
        data, values = self.make(sizes, skew, None, codec)
        if not self.fits(data):
            return
        epoch = self.epoch + (epoch_up and self.end > 0)
        info = self.log.append_as_leader(data, epoch)
        assert info.first_offset == self.end
        self.store(data, values, epoch, self.end, timestamp, None)

    @rule(sizes=sizes, skew=skew, gap=st.integers(0, 5))
    def append_as_follower(self, sizes, skew, gap):
        timestamp = BASE_TIME_MS + self.clock + skew
        base_offset = self.end + gap
        epoch = self.epoch
        data, values = self.make(sizes, skew, None, CompressionType.NONE, base_offset, epoch)
        if not self.fits(data):
            return
        self.log.append_as_follower(data)
        self.store(data, values, epoch, base_offset, timestamp, None)

    def of_producer(self, producer_id):
        return [each for each in self.deleted + self.batches if each.producer and each.producer[0] == producer_id]

    @rule(
        producer_id=st.sampled_from(PRODUCERS),
        sizes=sizes,
        kind=st.sampled_from(["next", "next", "next", "duplicate", "gap"]),
        back=st.integers(0, 4),
    )
    def append_idempotent(self, producer_id, sizes, kind, back):
        past = self.of_producer(producer_id)
        known = self.log.producers.producers.get(producer_id)
        assert (known is not None) == bool(past) or self.forgotten(past)
        if known is None:
            past = []
        following = past[-1].producer[2] + len(past[-1].records) if past else 0
        epoch = self.epoch
        if kind == "duplicate" and past:
            # Only the newest one is certain to be known: the others may have gone with a restart.
            again = past[max(len(past) - 1 - back, 0)]
            data = batch(*[value for _, _, value in again.records], producer=again.producer)
            try:
                info = self.log.append_as_leader(data, epoch)
            except OutOfOrderSequenceError:
                assert again is not past[-1]
                return
            assert info.duplicate
            # A producer that was forgotten begins again at sequence 0: two batches may look the same.
            same = [each for each in past if (each.producer, len(each.records)) == (again.producer, len(again.records))]
            assert (info.first_offset, info.last_offset) in [(each.base_offset, each.last_offset) for each in same]
            return
        producer = (producer_id, 0, following + (2 if kind == "gap" else 0))
        timestamp = BASE_TIME_MS + self.clock
        data, values = self.make(sizes, 0, producer, CompressionType.NONE)
        if not self.fits(data):
            return
        if kind == "gap" and past:
            with pytest.raises(OutOfOrderSequenceError):
                self.log.append_as_leader(data, epoch)
            return
        info = self.log.append_as_leader(data, epoch)
        assert (info.first_offset, info.duplicate) == (self.end, False)
        self.store(data, values, epoch, self.end, timestamp, producer)

    def forgotten(self, past):
        """A start may know nothing of producers whose batches lie below the log start offset."""
        return all(each.base_offset < self.start for each in past)

    @rule()
    def roll(self):
        self.log.roll()

    @rule(fraction=st.floats(0, 1))
    def advance_high_watermark(self, fraction):
        self.high_watermark = self.log.update_high_watermark(
            self.high_watermark + int((self.end - self.high_watermark) * fraction + 0.5)
        )

    @rule(fraction=st.floats(0, 1))
    def advance_start(self, fraction):
        offset = self.start + int((self.high_watermark - self.start) * fraction)
        assert self.log.increment_log_start_offset(offset) == (offset > self.start)
        self.start = offset
        below = [entry for entry in self.epochs if entry[1] <= offset]
        if below:
            self.epochs = [(below[-1][0], offset), *self.epochs[len(below) :]]

    @rule()
    def delete_old_segments(self):
        segments = len(self.log.segments)
        deleted = self.log.delete_old_segments()
        assert len(self.log.segments) >= segments - deleted
        assert self.log.segments[0].base_offset <= self.start
        self.note_deleted()

    def note_deleted(self):
        first = self.log.segments[0].base_offset
        self.deleted += [each for each in self.batches if each.last_offset < first]
        self.batches = [each for each in self.batches if each.last_offset >= first]

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction):
        if not self.batches:
            return
        offset = self.batches[min(int(len(self.batches) * fraction), len(self.batches) - 1)].base_offset
        self.log.truncate_to(offset)
        self.cut(offset)

    def cut(self, offset):
        """Records from `offset` on, a batch's beginning, are gone."""
        self.batches = [each for each in self.batches if each.base_offset < offset]
        self.deleted = [each for each in self.deleted if each.base_offset < offset]
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]
        self.end = offset
        self.start = min(self.start, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.checkpoint = (min(self.checkpoint[0], offset), min(self.checkpoint[1], offset))

    @rule()
    def flush_and_checkpoint(self):
        self.log.flush()
        assert self.log.recovery_point == self.end
        self.checkpoint = (self.end, self.start)

    def reopen(self, *, clean):
        """Open again. A log ends behind its last batch, even if an offset was left out there before."""
        active = self.log.segments[-1].base_offset
        left = [each.last_offset + 1 for each in self.batches if each.base_offset >= active]
        end = left[-1] if left else active
        if end < self.checkpoint[1]:
            end = self.checkpoint[1]
            self.batches = []
        self.cut(end)
        self.log = self.open(clean=clean)
        assert self.log.log_end_offset == self.end
        self.start = self.log.log_start_offset
        self.high_watermark = self.log.high_watermark
        self.note_deleted()
        found = self.log.leader_epochs.entries
        if found != self.epochs:
            # An epoch that begins at the log end offset is forgotten at a start, even if it began below and was
            # moved there with the log start offset. A recovery reads it again in batches that are still there.
            assert not clean
            assert not self.epochs
            inside = self.epochs_of_batches()[-len(found) :]
            assert [epoch for epoch, _ in found] == [epoch for epoch, _ in inside]
            assert found[1:] == inside[1:]
            assert inside[0][1] <= found[0][1] <= self.end
            self.epochs = found

    def epochs_of_batches(self):
        first = {}
        for each in self.batches:
            first.setdefault(each.epoch, each.base_offset)
        return list(first.items())

    @rule()
    def restart(self):
        self.log.close()
        self.checkpoint = (self.end, self.start)
        start = self.start
        self.reopen(clean=True)
        assert self.log.log_start_offset == start

    @rule()
    def crash(self):
        """The process dies; the page cache lives."""
        self.log.release()
        self.reopen(clean=False)

    @precondition(lambda self: self.batches)
    @rule(fraction=st.floats(0, 1))
    def crash_and_lose(self, fraction):
        """The machine dies: of the active segment only what was synced is there, and some of the rest."""
        active = self.log.segments[-1]
        path = Path(active.file.path)
        self.log.release()
        inside = [each for each in self.batches if each.base_offset >= active.base_offset]
        synced = sum(each.size for each in inside if each.base_offset < self.checkpoint[0])
        size = sum(each.size for each in inside)
        keep = synced + int((size - synced) * fraction)
        with path.open("r+b") as file:
            file.truncate(keep)
        position = 0
        for each in inside:
            position += each.size
            if position > keep:
                self.batches = [other for other in self.batches if other.base_offset < each.base_offset]
                break
        self.reopen(clean=False)

    @rule(fraction=st.floats(0, 1.1), max_bytes=st.sampled_from([0, 1, 100, 300, 1 << 20]), bound=st.floats(0, 1))
    def read(self, fraction, max_bytes, bound):
        offset = self.start + int((self.end - self.start) * fraction)
        if offset > self.end:
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(offset, max_bytes, max_offset=self.end)
            return
        ends = [self.end, *(each.base_offset for each in self.batches)]
        max_offset = ends[int((len(ends) - 1) * bound)]
        info = self.log.read(offset, max_bytes, max_offset=max_offset)
        visible = [each for each in self.batches if each.last_offset >= offset and each.base_offset < max_offset]
        if offset >= max_offset or not visible:
            assert info.records is None
            return
        data = info.records.to_bytes()
        assert len(data) == len(info.records) <= max(max_bytes, visible[0].size)
        found = iter_whole(data)
        assert found, "the first batch is whole"
        assert len(data) == sum(each.size_bytes for each in found) or len(data) == max_bytes
        for each, want in zip(found, visible, strict=False):
            each.check_crc()
            assert (each.base_offset, each.last_offset) == (want.base_offset, want.last_offset)
            assert [(record.offset, record.timestamp, record.value) for record in each.records()] == want.records
        assert len(found) <= len(visible)
        whole = sum(each.size_bytes for each in found)
        if len(found) < len(visible) and whole + visible[len(found)].size <= max_bytes:
            # Stopped before the limit: then at the end of a segment.
            end, following = found[-1].last_offset, visible[len(found)].base_offset
            assert any(end < segment.base_offset <= following for segment in self.log.segments)

    @rule(delta=st.integers(-50, 400))
    def lookup(self, delta):
        wanted = BASE_TIME_MS + delta
        records = [record for each in self.batches for record in each.records]
        expected = next(
            ((time, offset) for offset, time, _ in records if time >= wanted and offset >= self.start), None
        )
        found = self.log.fetch_offset_by_timestamp(wanted)
        assert (found and found[:2]) == expected

    @invariant()
    def offsets_agree(self):
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (
            self.start, self.high_watermark, self.end,
        )  # fmt: skip
        assert log.recovery_point <= log.log_end_offset
        assert log.last_stable_offset == log.high_watermark
        assert log.size_bytes == sum(segment.size for segment in log.segments)
        assert log.size_bytes == sum(each.size for each in self.batches)
        assert log.leader_epochs.entries == self.epochs
        bases = [segment.base_offset for segment in log.segments]
        assert bases == sorted(set(bases))


assert len(batch("x")) > BATCH_HEADER_SIZE

LogMachine.TestCase.settings = settings(
    max_examples=count(150, 1000),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=False,
    database=None,
)
TestLog = LogMachine.TestCase


@pytest.fixture
def machine():
    made = LogMachine()
    made.begin(segment_bytes=100_000, index_interval_bytes=1000, segment_ms=10_000)
    yield made
    made.teardown()


@pytest.mark.parametrize("again", ["restart", "crash"])
@pytest.mark.parametrize("more", [0, 1])
def test_epochs_of_a_log_whose_records_are_all_given_up(machine, again, more):
    """Rarely found by chance: the first start forgets the epoch, a recovery after it reads it again."""
    append = partial(machine.append, sizes=[1], skew=0, codec=CompressionType.NONE)
    append(epoch_up=False)
    append(epoch_up=True)
    machine.advance_high_watermark(fraction=1.0)
    machine.advance_start(fraction=1.0)
    machine.flush_and_checkpoint()
    getattr(machine, again)()
    assert machine.log.leader_epochs.entries == []
    for _ in range(more):
        append(epoch_up=False)
    machine.crash()
    machine.offsets_agree()
    assert machine.log.leader_epochs.entries == [(1, 2)]


def test_a_producer_is_known_when_its_records_are_deleted(machine):
    append = partial(machine.append_idempotent, producer_id=PRODUCERS[0], sizes=[1, 2], back=0)
    append(kind="next")
    machine.roll()
    machine.append(sizes=[1], skew=0, codec=CompressionType.NONE, epoch_up=False)
    machine.advance_high_watermark(fraction=1.0)
    machine.advance_start(fraction=1.0)
    machine.delete_old_segments()
    assert [each.base_offset for each in machine.deleted] == [0]
    for _ in range(2):
        append(kind="duplicate")
        append(kind="gap")
        machine.restart()
    append(kind="next")
    assert machine.batches[-1].producer == (PRODUCERS[0], 0, 2)
    machine.offsets_agree()
