"""The sparse indexes by themselves, against a sorted list."""

import random
from bisect import bisect_right

import pytest

from storage.errors import CorruptFileError, LogDirIOError
from storage.file_system import FileSystem
from storage.index.offset_index import OffsetIndex
from storage.index.time_index import TimeIndex
from storage.producers.transaction_index import AbortedTransaction, TransactionIndex
from support.faulty_disk import FaultyFileSystem
from support.log_dirs import BASE_TIME_MS, batch, open_log

BASE = 1000
ENTRY_BYTES = 34  # of a transaction index


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / f"{BASE:020d}.index")


def filled(path, count, seed=0):
    rng = random.Random(seed)
    index = OffsetIndex(FileSystem(), path, BASE, 8 * 10_000, create=True)
    entries = []
    offset, position = BASE, 0
    for _ in range(count):
        offset += rng.randrange(1, 6)
        position += rng.randrange(1, 1000)
        entries.append((offset, position))
        index.append(offset, position)
    return index, entries


def floor_position(entries, offset):
    slot = bisect_right([entry[0] for entry in entries], offset)
    return entries[slot - 1][1] if slot else 0


def test_the_newest_entries_are_in_memory(path):
    """What is appended is looked up without a read, and memory does not grow with the index."""
    index = OffsetIndex(FileSystem(), path, BASE, 80_000, create=True)
    for number in range(5000):
        index.append(BASE + 1 + number, 100 * number)
        assert index.is_in_memory(BASE + 1 + max(0, number - 1000))
    assert not index.is_in_memory(BASE + 1 + 2000)


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 1000, 2049, 5000])
@pytest.mark.parametrize("reopened", [False, True])
def test_lookup(path, count, reopened):
    index, entries = filled(path, count)
    if reopened:
        index = OffsetIndex(FileSystem(), path, BASE, 80_000)
    assert index.entries == count
    assert index.absolute_entries() == entries
    assert index.last_offset == (entries[-1][0] if entries else BASE)
    last = entries[-1][0] if entries else BASE
    for offset in {BASE - 1, BASE, last, last + 1, *random.Random(1).choices(range(BASE, last + 1), k=300)}:
        assert index.lookup(offset) == floor_position(entries, offset)
    positions = [position for _, position in entries]
    for wanted in random.Random(2).choices(range((positions or [1])[-1] + 2), k=100):
        expected = next((offset for offset, position in entries if position >= wanted), None)
        assert index.offset_at_or_after(wanted) == expected


@pytest.mark.parametrize("count", [1, 300, 2500])
def test_truncate(path, count):
    rng = random.Random(3)
    index, entries = filled(path, count)
    for _ in range(6):
        offset = rng.randrange(BASE, entries[-1][0] + 2) if entries else BASE
        index.truncate_to(offset)
        entries = [entry for entry in entries if entry[0] < offset]
        assert index.absolute_entries() == entries
        assert OffsetIndex(FileSystem(), path, BASE, 80_000).absolute_entries() == entries
        for each in (BASE, offset, offset + 1):
            assert index.lookup(each) == floor_position(entries, each)
        following = (entries[-1][0] if entries else BASE) + 3
        position = (entries[-1][1] if entries else 0) + 3
        index.append(following, position)
        entries.append((following, position))
        assert index.lookup(following) == position


@pytest.mark.parametrize("count", [0, 1, 5, 700])
@pytest.mark.parametrize("padding", [1, 3, 1000])
def test_preallocated_zeros_are_no_entries(path, count, padding):
    _, entries = filled(path, count)
    with open(path, "ab") as file:  # noqa: PTH123
        file.write(bytes(8 * padding))
    index = OffsetIndex(FileSystem(), path, BASE, 80_000)
    assert index.absolute_entries() == entries
    following = (entries[-1][0] if entries else BASE) + 1
    index.append(following, 10**6)
    index.trim()
    assert OffsetIndex(FileSystem(), path, BASE, 80_000).absolute_entries() == [*entries, (following, 10**6)]


def test_sizes(path):
    fs = FileSystem()
    fs.write_file(path, bytes(12), sync=False)
    with pytest.raises(CorruptFileError, match="entry size 8"):
        OffsetIndex(fs, path, BASE, 80)
    with pytest.raises(FileNotFoundError):
        OffsetIndex(fs, path + "x", BASE, 80)
    index = OffsetIndex(fs, path, BASE, 25, create=True)
    for number in range(3):
        assert not index.is_full
        index.append(BASE + number, number)
    assert index.is_full


class TestTimeIndex:
    def test_only_increasing_timestamps_are_entries(self, path):
        index = TimeIndex(FileSystem(), path, BASE, 12 * 10, create=True)
        assert (index.last_timestamp, index.last_offset) == (-1, BASE)
        for timestamp, offset in [(50, 1003), (50, 1004), (40, 1005), (60, 1006)]:
            index.maybe_append(timestamp, offset)
        assert index.absolute_entries() == [(50, 1003), (60, 1006)]
        assert [index.lookup(timestamp) for timestamp in (49, 50, 59, 60, 99)] == [
            (-1, BASE), (50, 1003), (50, 1003), (60, 1006), (60, 1006),
        ]  # fmt: skip
        index.truncate_to(1006)
        assert (index.last_timestamp, index.last_offset) == (50, 1003)

    def test_the_last_slot_is_kept_free(self, path):
        index = TimeIndex(FileSystem(), path, BASE, 12 * 3, create=True)
        index.maybe_append(1, BASE)
        assert not index.is_full
        index.maybe_append(2, BASE + 1)
        assert index.is_full

    def test_a_single_entry_of_zeros_is_valid(self, path):
        fs = FileSystem()
        fs.write_file(path, bytes(12), sync=False)
        assert TimeIndex(fs, path, BASE, 1200).absolute_entries() == [(0, BASE)]
        for size in (0, 1200):
            fs.write_file(path, bytes(size), sync=False)
            assert TimeIndex(fs, path, BASE, 1200).absolute_entries() == []


class TestTransactionIndex:
    entries = (
        AbortedTransaction(1, 1000, 1010, 1002),
        AbortedTransaction(2, 1002, 1020, 1021),
        AbortedTransaction(3, 1030, 1040, 1041),
    )

    @pytest.fixture
    def index(self, path):
        index = TransactionIndex(FileSystem(), path, BASE)
        for entry in self.entries:
            index.append(entry)
        return index

    @pytest.mark.parametrize(
        ("offset", "bound", "found", "complete"),
        [
            (1000, 1001, [1], True),
            (1000, 1003, [1, 2], True),
            (1010, 1022, [1, 2], True),  # the range begins at a marker
            (1011, 1022, [2], True),
            (1021, 1030, [], True),
            (1021, 1031, [3], True),
            (1021, 1041, [3], True),
            (1000, 2000, [1, 2, 3], False),
            (1041, 2000, [], False),
        ],
    )
    def test_collect(self, index, offset, bound, found, complete):
        entries, done = index.collect(offset, bound)
        assert ([entry.producer_id for entry in entries], done) == (found, complete)

    def test_the_file(self, index, path):
        again = TransactionIndex(FileSystem(), path, BASE)
        again.load()
        assert tuple(again.entries) == self.entries
        again.truncate_to(1020)
        assert tuple(again.entries) == self.entries[:1]
        again.append(self.entries[2])
        index.load()
        assert tuple(index.entries) == (self.entries[0], self.entries[2])
        index.reset()
        assert FileSystem().size(path) == 0

    def test_a_marker_at_the_base_offset_belongs_to_the_segment(self, path):
        entry = AbortedTransaction(1, BASE - 10, BASE, BASE + 1)
        TransactionIndex(FileSystem(), path, BASE).append(entry)
        again = TransactionIndex(FileSystem(), path, BASE)
        again.load()
        assert again.entries == [entry]

    def test_entries_wait_for_room_on_the_disk(self, tmp_path, path):
        fs, failures = FaultyFileSystem(tmp_path, ENTRY_BYTES + 10), []
        fs.on_failure = failures.append
        index = TransactionIndex(fs, path, BASE)
        for entry in self.entries:
            index.append(entry)  # of the second entry, 10 bytes are written
        assert tuple(index.entries) == self.entries
        assert [failure.is_disk_full for failure in failures] == [True, True]
        index.truncate_to(1040)
        fs.capacity = None
        index.write_pending()
        again = TransactionIndex(FileSystem(), path, BASE)
        again.load()
        assert tuple(again.entries) == self.entries[:2]

    def test_a_file_that_cannot_be_created_waits_for_room_on_the_disk(self, tmp_path, path):
        fs = FaultyFileSystem(tmp_path, 0)
        index = TransactionIndex(fs, path, BASE)
        index.append(self.entries[0])
        with pytest.raises(LogDirIOError):
            index.write_pending()
        fs.capacity = None
        index.append(self.entries[1])
        again = TransactionIndex(FileSystem(), path, BASE)
        again.load()
        assert tuple(again.entries) == self.entries[:2]

    @pytest.mark.parametrize("content", [bytes(33), b"\x00\x01" + bytes(32), bytes(34)])
    def test_invalid_indexes(self, path, content):
        fs = FileSystem()
        fs.write_file(path, content, sync=False)
        with pytest.raises(CorruptFileError):
            TransactionIndex(fs, path, BASE).load()

    def test_there_is_no_file_without_an_entry(self, path):
        index = TransactionIndex(FileSystem(), path, BASE)
        index.load()
        index.truncate_to(0)
        index.reset()
        assert not FileSystem().exists(path)


def test_an_entry_needs_more_than_the_interval_since_the_last_one(tmp_path):
    size = len(batch("x"))
    log = open_log(tmp_path / "t-0", index_interval_bytes=size)
    for number in range(7):
        log.append_as_leader(batch("x", timestamp=BASE_TIME_MS + number), 0)
    assert log.segments.active.offset_index.absolute_entries() == [(2, 2 * size), (4, 4 * size), (6, 6 * size)]
    entries = [(BASE_TIME_MS + offset, offset) for offset in (2, 4, 6)]
    assert log.segments.active.time_index.absolute_entries() == entries
    # An entry names the last offset of its append, and where the append begins.
    log.append_as_follower(batch("x", base_offset=7) + batch("x", base_offset=8))
    log.append_as_follower(batch("x", base_offset=9) + batch("x", base_offset=10))
    assert log.segments.active.offset_index.absolute_entries()[3:] == [(10, 9 * size)]
