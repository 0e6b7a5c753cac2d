"""The operations of FileSystem that depend on what the operating system supports for a file."""

import errno
import os

import pytest

from storage.file_system import FileSystem

UNSUPPORTED = "/proc/version"
"""A file for which the kernel cannot tell what is cached: preadv with RWF_NOWAIT fails with EOPNOTSUPP."""


class Failing(FileSystem):
    """`_probe` and `sendfile` raise an OSError, if the test sets one."""

    def __init__(self):
        super().__init__()
        self.probe_error = None
        self.sendfile_error = None
        self.probes = 0

    def _probe(self, fd, length, position):
        self.probes += 1
        if self.probe_error is not None:
            raise self.probe_error

    def sendfile(self, socket_fd, fd, position, length):
        if self.sendfile_error is not None:
            raise self.sendfile_error
        return length


@pytest.fixture
def fs():
    return Failing()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_sendfile_is_not_used_again_if_it_is_not_supported(fs, number):
    fs.sendfile_error = OSError(number, "not supported")
    assert fs.sendfile_now(1, 2, 100, 0) is None
    assert not fs.can_sendfile


@pytest.mark.parametrize("number", [errno.EIO, errno.EPIPE, errno.EAGAIN])
def test_other_errors_of_sendfile_are_raised(fs, number):
    fs.sendfile_error = OSError(number, "failed")
    with pytest.raises(OSError, match="failed") as raised:
        fs.sendfile_now(1, 2, 100, 0)
    assert raised.value.errno == number
    assert fs.can_sendfile


def test_nothing_is_sent_from_the_disk(fs):
    fs.probe_error = BlockingIOError(errno.EAGAIN, "not cached")
    assert fs.sendfile_now(1, 2, 100, 0) is None
    assert fs.can_sendfile
    assert fs.pread_now(2, 100_000, 0) is None


def test_a_file_is_sent_without_a_probe_if_probes_are_not_supported(fs):
    fs.probe_error = OSError(errno.EOPNOTSUPP, "not supported")
    for _ in range(2):
        assert fs.sendfile_now(1, 2, 100, 0) == 100
    assert fs.probes == 1


def test_an_error_of_a_probe_is_raised(fs):
    fs.probe_error = OSError(errno.EIO, "failed")
    for read in (lambda: fs.sendfile_now(1, 2, 100, 0), lambda: fs.pread_now(2, 100_000, 0)):
        with pytest.raises(OSError, match="failed"):
            read()
    assert fs.probes == 2  # an error does not mean that probes are not supported


@pytest.mark.parametrize("length", [10, 100_000])
def test_a_file_is_read_if_the_system_cannot_tell_what_is_cached(length):
    fs = FileSystem()
    file = fs.open(UNSUPPORTED)
    with pytest.raises(OSError, match="not supported"):
        os.preadv(file.fd, [bytearray(1)], 0, os.RWF_NOWAIT)
    with open(UNSUPPORTED, "rb") as content:  # noqa: PTH123
        expected = content.read(length)
    for _ in range(2):
        assert fs.pread_now(file.fd, length, 0) == expected
