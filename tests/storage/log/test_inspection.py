"""What an inspection shows of a log's files is what is in them, and its steps are those of a read."""

import random

import pytest

from protocol.compression import CompressionType
from protocol.errors import CorruptRecordError
from storage.compaction.run import compact_log
from storage.log.inspection import LogInspection
from support.log_dirs import BASE_TIME_MS, batch, open_log, read_batches


@pytest.fixture
def log(tmp_path):
    """Three segments of 900, 900 and 7 batches of one to three records, each but the first with an index entry."""
    rng = random.Random(1)
    log = open_log(tmp_path / "t-0", index_interval_bytes=1)
    for count in (900, 900, 7):
        for number in range(count):
            values = [f"v{number}" for _ in range(rng.randrange(1, 4))]
            log.append_as_leader(batch(*values, timestamp=BASE_TIME_MS + number), 0)
        if count > 7:
            log.roll()
    yield log
    log.release()


@pytest.fixture
def inspection(log):
    found = LogInspection(log)
    yield found
    found.close()


def test_the_steps_of_a_search_end_where_a_read_begins(log, inspection):
    for offset in [0, *random.Random(2).sample(range(log.log_end_offset), 300), log.log_end_offset - 1]:
        segment, position, size = log.segments.find(offset)
        found = inspection.search(offset)
        assert found.is_found
        assert (found.base_offset, found.scanned[-1].position, found.scanned[-1].size) == (
            segment.base_offset,
            position,
            size,
        )
        with inspection._segment(segment.base_offset) as view:
            assert found.indexed_position == view.offset_index.lookup(offset)
        assert found.index_entries == segment.offset_index.entries


def test_each_probe_halves_the_entries_that_are_left(log, inspection):
    found = inspection.search(log.segments[1].base_offset + 500)
    assert found.segment_probes
    assert 5 < len(found.index_probes) < 12  # of 899 entries
    for probe, following in zip(found.index_probes, found.index_probes[1:], strict=False):
        assert probe.low <= probe.slot < probe.high
        assert following.high - following.low < probe.high - probe.low
        assert probe.slot in (following.low, following.high)


def test_the_active_segment_is_asked_first(log, inspection):
    assert inspection.search(log.log_end_offset - 1).segment_probes == []


def test_an_offset_behind_the_end_is_not_found(log, inspection):
    assert not inspection.search(log.log_end_offset).is_found


def test_a_batch_that_compaction_has_removed_is_looked_for_in_the_segments_after_it(tmp_path):
    log = open_log(tmp_path / "t-0", cleanup_policy={"compact"}, segment_bytes=300)
    for number in range(30):
        log.append_as_leader(batch("v", key=b"%d" % (number % 3)), 0)
    log.commit_all()
    compact_log(log, 0, log.segments.active.base_offset)
    kept = [each.base_offset for each in read_batches(log)]
    offset = log.segments[0].base_offset + 1
    assert kept[0] > log.segments[1].base_offset > offset
    found = LogInspection(log).search(offset)
    assert found.is_found
    assert found.scanned[-1].base_offset == kept[0]
    log.release()


def test_pages_of_batches_are_all_batches_once(log, inspection):
    first = log.segments[0]
    position, seen = 0, []
    while position is not None:
        page, position = inspection.batches(first.base_offset, position, 250)
        seen += page
    assert len(seen) == 900
    assert [one.header.base_offset for one in seen[1:]] == [one.header.last_offset + 1 for one in seen[:-1]]
    assert all(one.is_crc_valid for one in seen)
    assert all(one.records == one.header.last_offset - one.header.base_offset + 1 for one in seen)


def test_a_batch_is_described(tmp_path):
    log = open_log(tmp_path / "t-0")
    log.append_as_leader(batch("v", timestamp=BASE_TIME_MS, codec=CompressionType.GZIP), 3)
    (found,), following = LogInspection(log).batches(0, 0, 10)
    assert (found.compression, found.is_transactional, found.is_control) == ("gzip", False, False)
    assert (found.base_timestamp, found.header.max_timestamp, found.header.leader_epoch) == (BASE_TIME_MS,) * 2 + (3,)
    assert following is None


def test_damage_is_shown(log, inspection):
    segment = log.segments[0]
    second = inspection.batches(0, 0, 2)[0][1].header
    with open(segment.file.path, "r+b") as file:  # noqa: PTH123
        file.seek(second.position + second.size - 1)
        file.write(b"\xff")
    assert [one.is_crc_valid for one in inspection.batches(0, 0, 3)[0]] == [True, False, True]


def test_a_position_inside_a_batch_is_refused(inspection):
    with pytest.raises(CorruptRecordError):
        inspection.batches(0, 7, 1)


def test_an_unknown_segment_is_refused(inspection):
    with pytest.raises(KeyError):
        inspection.batches(1, 0, 1)


def test_entries_and_files(log, inspection):
    base = log.segments[1].base_offset
    count, entries = inspection.offset_entries(base, 100, 3)
    assert (count, entries) == (899, log.segments[1].offset_index.absolute_entries()[100:103])
    assert inspection.time_entries(base, 0, 2)[1] == log.segments[1].time_index.absolute_entries()[:2]
    assert inspection.offset_entries(base, 5000, 3)[1] == []
    assert inspection.aborted(base, 0, 5) == (0, [])
    names = {file.name.partition(".")[2]: file.size for file in inspection.files(base)}
    assert names["index"] == 899 * 8
    assert names["log"] == log.segments[1].size
    assert "snapshot" in names


def test_a_truncation_makes_an_inspection_outdated(log, inspection):
    assert not inspection.is_outdated
    log.truncate_to(100)
    assert inspection.is_outdated
