"""The file system of a broker that is killed: no operation has an effect any more, and threads are waited for."""

import asyncio
import threading

import pytest

from ottla.testing.process_files import ProcessFiles
from storage.file_system import FileSystem


async def test_a_killed_file_system_writes_nothing_and_another_works(tmp_path):
    files = ProcessFiles(FileSystem())
    path = str(tmp_path / "file")
    files.fs.write_file(path, b"one", sync=False)
    files.kill()
    for call in (lambda: files.fs.write_file(path, b"two", sync=False), lambda: files.fs.for_one_thread().open(path)):
        with pytest.raises(asyncio.CancelledError, match="killed"):
            call()
    assert files.fs.remove(path) is False
    assert FileSystem().read_file(path) == b"one"


async def test_threads_are_waited_for():
    files = ProcessFiles(FileSystem())
    may_end, ended = threading.Event(), []

    def work():
        may_end.wait()
        ended.append(True)

    running = asyncio.create_task(files.fs.run_blocking(work))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    waiting = asyncio.create_task(files.until_quiet())
    await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    await waiting
    assert ended == [True]
