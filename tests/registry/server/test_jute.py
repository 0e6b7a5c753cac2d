"""Jute: what is written is read back, and bytes that are no record are refused."""

import pytest

from registry.interface import OPEN_ACL, Acl, Stat
from registry.server import jute
from registry.server.jute import JuteError, JuteReader


def test_what_is_written_is_read_back():
    acl = (*OPEN_ACL, Acl(1, "digest", "alice:hash"))
    data = jute.int32(-5) + jute.int64(1 << 40) + jute.boolean(True) + jute.buffer(None) + jute.buffer(b"")
    reader = JuteReader(data + jute.string("é") + jute.strings(["a", "b"]) + jute.acl(acl))
    assert (reader.int32(), reader.int64(), reader.boolean()) == (-5, 1 << 40, True)
    assert (reader.buffer(), reader.buffer(), reader.string()) == (None, b"", "é")
    assert reader.vector(reader.string) == ["a", "b"]
    assert not reader.is_at_end
    assert reader.acl() == list(acl)
    assert reader.is_at_end


def test_null_is_an_empty_string_and_an_empty_list():
    reader = JuteReader(jute.int32(-1) * 2)
    assert (reader.string(), reader.vector(reader.string)) == ("", [])


def test_the_bytes_of_a_stat():
    """The order and the sizes of zookeeper.jute: 68 bytes."""
    encoded = jute.stat(Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
    reader = JuteReader(encoded)
    assert [reader.int64() for _ in range(4)] == [1, 2, 3, 4]
    assert [reader.int32() for _ in range(3)] == [5, 6, 7]
    assert (reader.int64(), reader.int32(), reader.int32(), reader.int64()) == (8, 9, 10, 11)
    assert len(encoded) == 68


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"\0\0\0", JuteReader.int32),
        (b"\0\0\0\4abc", JuteReader.buffer),
        (b"\x7f\xff\xff\xffabc", JuteReader.buffer),
        (b"\0\0\0\2\xff\xfe", JuteReader.string),
        (b"\0\0\0\5abc", lambda reader: reader.vector(reader.boolean)),
        (b"\x7f\xff\xff\xff", JuteReader.acl),
    ],
)
def test_bytes_that_are_no_record(data, read):
    with pytest.raises(JuteError):
        read(JuteReader(data))
