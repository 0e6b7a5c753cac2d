"""Headers of batches in a file: what the smallest ones are, and files that end too early."""

import struct

import pytest

from protocol.errors import CorruptRecordError
from protocol.record_batch import RecordBatch
from storage.file_system import CachedFile, FileSystem
from storage.log.batch_scan import iter_headers, parse_header
from support.log_dirs import BASE_TIME_MS, batch


@pytest.mark.parametrize(("magic", "smallest"), [(0, 14), (1, 22), (2, 49)])
def test_invalid_lengths(magic, smallest):
    def header(length):
        return parse_header(struct.pack(">qi4xb", 7, length, magic) + bytes(61), 0, 500)

    assert (header(smallest).size, header(smallest).position) == (smallest + 12, 500)
    with pytest.raises(CorruptRecordError, match=f"length {smallest - 1}"):
        header(smallest - 1)


def test_a_header_has_the_fields_of_the_batch():
    data = batch("a", "b", timestamp=BASE_TIME_MS, producer=(7, 3, 40), base_offset=11, leader_epoch=5)
    header = parse_header(data, 0, 900)
    assert (header.position, header.size, header.magic) == (900, len(data), 2)
    whole = RecordBatch(memoryview(data))
    for name in header._fields:
        if name not in ("position", "size", "magic", "leader_epoch"):
            assert getattr(header, name) == getattr(whole, name), name
    assert header.leader_epoch == whole.partition_leader_epoch == 5


def test_a_file_that_ends_before_it_should(tmp_path):
    """It was cut while its headers were read."""
    data = batch("a") + batch("b", base_offset=1)
    (tmp_path / "f").write_bytes(data)
    for behind in (1, 30, 1000, 1_000_000):
        found = iter_headers(CachedFile(FileSystem(), str(tmp_path / "f")), 0, len(data) + behind)
        assert [header.base_offset for header in found] == [0, 1]
