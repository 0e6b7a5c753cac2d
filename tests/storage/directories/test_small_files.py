"""Checkpoints, leader epochs, meta.properties: text in, text out, and what is refused."""

import pytest

from storage.directories.checkpoints import OffsetCheckpoint
from storage.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from storage.errors import CorruptFileError
from storage.file_system import FileSystem
from storage.log.leader_epoch_cache import LeaderEpochCache
from support.log_dirs import LOG_DIRS

FS = FileSystem()


class TestOffsetCheckpoint:
    @pytest.mark.parametrize("name", ["recovery-point", "replication", "log-start", "cleaner"])
    def test_recorded_files_read_and_write_the_same(self, name, tmp_path):
        (source,) = (LOG_DIRS / "broker-0").glob(f"{name}*-checkpoint")
        offsets = OffsetCheckpoint(FS, str(source)).read()
        copy = OffsetCheckpoint(FS, str(tmp_path / "copy"))
        copy.write(offsets)
        assert (tmp_path / "copy").read_bytes() == source.read_bytes()
        if name == "log-start":
            assert offsets == {("start-offset", 0): 61}

    def test_a_missing_file_is_empty(self, tmp_path):
        assert OffsetCheckpoint(FS, str(tmp_path / "none")).read() == {}

    def test_an_empty_file_has_no_entries(self, tmp_path):
        """As a Kafka that was killed before its first checkpoint leaves it."""
        (tmp_path / "c").touch()
        assert OffsetCheckpoint(FS, str(tmp_path / "c")).read() == {}

    def test_no_entries(self, tmp_path):
        checkpoint = OffsetCheckpoint(FS, str(tmp_path / "c"))
        checkpoint.write({})
        assert (tmp_path / "c").read_bytes() == b"0\n0\n"
        assert checkpoint.read() == {}
        assert [file.name for file in tmp_path.iterdir()] == ["c"]

    @pytest.mark.parametrize(
        ("content", "rule"),
        [
            (b"1\n0\n", "version"),
            (b"x\n0\n", "version"),
            (b"0\n", "number of entries"),
            (b"0\nx\n", "number of entries"),
            (b"0\n-1\n", "number of entries"),
            (b"0\n2\na 0 1\n", "expected 2 entries, found 1"),
            (b"0\n0\na 0 1\n", "expected 0 entries, found 1"),
            (b"0\n1\na 0\n", "malformed line"),
            (b"0\n1\na b 3\n", "malformed line"),
            (b"0\n1\na 0 1 2\n", "malformed line"),
            (b"\xff\xfe\n0\n", "version"),
        ],
    )
    def test_invalid_files_are_refused(self, tmp_path, content, rule):
        (tmp_path / "c").write_bytes(content)
        with pytest.raises(CorruptFileError, match=rule) as corrupt:
            OffsetCheckpoint(FS, str(tmp_path / "c")).read()
        assert corrupt.value.path == str(tmp_path / "c")


class TestLeaderEpochs:
    @pytest.fixture
    def cache(self, tmp_path):
        return LeaderEpochCache(FS, str(tmp_path))

    def filled(self, cache, *entries):
        for epoch, start in entries:
            cache.assign(epoch, start)
        return cache

    @pytest.mark.parametrize(
        ("assigned", "expected"),
        [
            ([(0, 0), (0, 5)], [(0, 0)]),
            ([(0, 0), (1, 5), (3, 9)], [(0, 0), (1, 5), (3, 9)]),
            ([(0, 0), (1, 5), (2, 5)], [(0, 0), (2, 5)]),  # nothing was written in epoch 1
            ([(2, 6), (2, 4)], [(2, 4)]),
            ([(0, 0), (1, 5), (1, 3)], [(0, 0), (1, 3)]),
            ([(0, 0), (1, 5), (2, 9), (1, 7)], [(0, 0), (1, 7)]),
            ([(0, 0), (1, 5), (2, 9), (3, 3)], [(0, 0), (3, 3)]),
            ([(5, 10), (6, 0)], [(6, 0)]),
        ],
    )
    def test_assign(self, cache, assigned, expected):
        self.filled(cache, *assigned)
        assert cache.entries == expected
        again = LeaderEpochCache(FS, cache.directory)
        again.load()
        assert again.entries == expected
        assert again.latest_epoch == expected[-1][0]

    @pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
    def test_invalid_assignments(self, cache, entry):
        with pytest.raises(ValueError, match="leader epoch"):
            cache.assign(*entry)

    @pytest.mark.parametrize(
        ("epoch", "expected"),
        [
            (-1, (-1, -1)), (0, (0, 3)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)),
            (4, (4, 30)), (5, (4, 30)), (7, (7, 55)), (8, (-1, -1)),
        ],
    )  # fmt: skip
    def test_end_offset(self, cache, epoch, expected):
        self.filled(cache, (1, 3), (2, 10), (4, 20), (7, 30))
        assert cache.end_offset_for(epoch, 55) == expected

    def test_end_offset_without_epochs(self, cache):
        assert cache.end_offset_for(0, 5) == (-1, -1)

    @pytest.mark.parametrize(
        ("end", "expected"),
        [
            (0, []), (1, [(0, 0)]), (10, [(0, 0)]), (11, [(0, 0), (2, 10)]), (20, [(0, 0), (2, 10)]),
            (21, [(0, 0), (2, 10), (4, 20)]),
        ],
    )  # fmt: skip
    def test_truncate_from_end(self, cache, end, expected):
        self.filled(cache, (0, 0), (2, 10), (4, 20)).truncate_from_end(end)
        assert cache.entries == expected
        again = LeaderEpochCache(FS, cache.directory)
        again.load()
        assert again.entries == expected

    @pytest.mark.parametrize(
        ("start", "expected"),
        [
            (0, [(1, 3), (2, 10), (4, 20)]),
            (3, [(1, 3), (2, 10), (4, 20)]),
            (4, [(1, 4), (2, 10), (4, 20)]),
            (10, [(2, 10), (4, 20)]),
            (15, [(2, 15), (4, 20)]),
            (99, [(4, 99)]),
        ],
    )
    def test_truncate_from_start(self, cache, start, expected):
        self.filled(cache, (1, 3), (2, 10), (4, 20)).truncate_from_start(start)
        assert cache.entries == expected

    @pytest.mark.parametrize(("offset", "epoch"), [(2, None), (3, 1), (9, 1), (10, 2), (50, 4)])
    def test_epoch_for_offset(self, cache, offset, epoch):
        assert self.filled(cache, (1, 3), (2, 10), (4, 20)).epoch_for_offset(offset) == epoch

    def test_clear(self, cache, tmp_path):
        self.filled(cache, (0, 0)).clear()
        assert cache.latest_epoch == -1
        assert cache.earliest is None
        assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"


class TestMetaProperties:
    def test_the_recorded_file(self):
        stored = read_meta_properties(FS, str(LOG_DIRS / "broker-0"))
        assert stored == MetaProperties(0, "o49C908cRjWCOSxMqwtNNw")

    def test_the_written_file(self, tmp_path):
        write_meta_properties(FS, str(tmp_path), MetaProperties(0, "o49C908cRjWCOSxMqwtNNw"), 1795235540_000)
        recorded = (LOG_DIRS / "broker-0" / "meta.properties").read_bytes()
        assert (tmp_path / "meta.properties").read_bytes() == recorded
        assert read_meta_properties(FS, str(tmp_path)) == MetaProperties(0, "o49C908cRjWCOSxMqwtNNw")

    def test_a_missing_file(self, tmp_path):
        assert read_meta_properties(FS, str(tmp_path)) is None

    @pytest.mark.parametrize("content", ["", "broker.id=1\n", "version=1\nnode.id=1\n", "version=0\nbroker.id=x\n"])
    def test_invalid_files_are_refused(self, tmp_path, content):
        (tmp_path / "meta.properties").write_text(content)
        with pytest.raises(CorruptFileError):
            read_meta_properties(FS, str(tmp_path))

    def test_comments_and_spaces(self, tmp_path):
        (tmp_path / "meta.properties").write_text("# a\n! b\n version = 0 \nbroker.id = 5\n\n")
        assert read_meta_properties(FS, str(tmp_path)) == MetaProperties(5, None)
