"""A compaction that is cut off at any operation on a file: the next start finds the log as it was, or compacted.

Every fourth operation in an ordinary run, every one in the full run.
"""

import itertools
import shutil

import pytest

from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from protocol.record_batch_builder import RecordBatchBuilder
from storage.compaction.run import compact_log
from storage.log.append import AppendOrigin
from support.counts import count
from support.log_dirs import UnsyncedFileSystem, open_log, read_records

CHANGES = ("pwrite", "ftruncate", "fsync", "rename", "remove", "set_modified_ms", "sync_directory")
SETTINGS = {"retention_ms": -1, "segment_bytes": 800, "index_interval_bytes": 100, "cleanup_policy": ("compact",)}


class CutError(BaseException):
    """The process is gone."""


class CutFileSystem(UnsyncedFileSystem):
    """Lets `left` changes happen and no more."""

    def __init__(self):
        super().__init__()
        self.left = -1

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if name not in CHANGES or self.left < 0:
            return value

        def counted(*arguments):
            if self.left == 0:
                raise CutError
            self.left -= 1
            return value(*arguments)

        return counted


def fill(directory):
    """Overwritten keys, tombstones, one aborted and one committed transaction, over some ten segments."""
    log = open_log(directory, **SETTINGS)
    for number in range(30):
        builder = RecordBatchBuilder()
        for key in range(number % 3, 7, 2):
            builder.append(1_700_000_000_000 + number, b"k%d" % key, b"%d" % number * 30 if key != 3 else None)
        log.append_as_leader(builder.build(), 0)
        if number in (9, 19):
            for sequence in range(2):
                builder = RecordBatchBuilder(
                    0, producer_id=5, producer_epoch=0, base_sequence=number // 10 * 2 + sequence, transactional=True
                )
                builder.append(1_700_000_000_000 + number, b"t%d" % sequence, b"transaction" * 9)
                log.append_as_leader(builder.build(), 0)
            kind = ControlRecordType.ABORT if number == 9 else ControlRecordType.COMMIT
            marker = EndTransactionMarker(kind, 0)
            log.append_as_leader(
                end_marker_batch(marker, producer_id=5, producer_epoch=0, timestamp=1_700_000_000_000),
                0,
                origin=AppendOrigin.COORDINATOR,
            )
    log.roll()
    log.close()


def open_committed(directory, fs=None):
    log = open_log(directory, fs=fs, **SETTINGS)
    log.commit_all()
    return log


def rows(log):
    return [(record.offset, record.timestamp, record.key, record.value) for record in read_records(log)]


@pytest.mark.counted
@pytest.mark.timeout(0)
@pytest.mark.parametrize("small_groups", [True, False], ids=["many groups", "one group"])
def test_cut_off_at_every_change(small_groups, tmp_path):
    fill(tmp_path / "t-0")
    shutil.copytree(tmp_path / "t-0", tmp_path / "untouched" / "t-0")
    untouched = open_committed(tmp_path / "untouched" / "t-0")
    before, end = rows(untouched), untouched.log_end_offset
    fits = {"segment_bytes": 3000 if small_groups else 1 << 20}
    untouched.config = untouched.config.with_overrides(**fits)
    result = compact_log(untouched, 0, untouched.segments.active.base_offset)
    after = rows(untouched)
    assert len(untouched.segments) == (4 if small_groups else 2)
    assert len(after) < len(before) // 2
    untouched.release()
    seen = set()
    for changes in itertools.count(0, count(4, 1)):
        directory = tmp_path / str(changes) / "t-0"
        shutil.copytree(tmp_path / "t-0", directory)
        fs = CutFileSystem()
        log = open_committed(directory, fs)
        log.config = log.config.with_overrides(**fits)
        fs.left = changes
        try:
            assert compact_log(log, 0, log.segments.active.base_offset).end_offset == result.end_offset
            cut = False
        except CutError:
            cut = True
        log.release()
        again = open_log(directory, clean=False, recovery_point=0, **SETTINGS)
        found = rows(again)
        assert again.log_end_offset == end
        assert found == sorted(set(found))
        assert set(after) <= set(found) <= set(before)
        if not small_groups:
            assert found in (before, after)
        seen.add(len(found))
        names = {path.suffix for path in directory.iterdir()}
        assert not names & {".cleaned", ".swap", ".deleted"}
        again.commit_all()
        compact_log(again, 0, again.segments.active.base_offset)
        assert rows(again) == after
        again.release()
        shutil.rmtree(directory.parent)
        if not cut:
            break
    assert changes > 20
    assert {len(before), len(after)} <= seen
