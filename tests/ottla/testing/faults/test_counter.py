"""Counters: each use is counted once, also by processes that share a file."""

import multiprocessing
import threading

import pytest

from ottla.testing.faults.counter import LocalCounter, SharedCounter

COUNT = 300


def counters(tmp_path, count):
    path = tmp_path / f"uses-{count}"
    local = LocalCounter(count)
    return {"local": [local, local], "shared": [SharedCounter(path, count), SharedCounter(path, count)]}


@pytest.mark.parametrize("kind", ["local", "shared"])
def test_uses_and_what_is_left(tmp_path, kind):
    first, second = counters(tmp_path, 2)[kind]
    assert (first.uses, first.left) == (0, 2)
    assert first.take()
    assert (second.uses, second.left) == (1, 1)
    assert second.take()
    assert not first.take()
    assert (first.uses, first.left) == (2, 0)
    endless, _ = counters(tmp_path, None)[kind]
    assert [endless.take() for _ in range(3)] == [True] * 3
    assert (endless.uses, endless.left) == (3, None)


@pytest.mark.parametrize("kind", ["local", "shared"])
def test_threads_take_no_use_twice(tmp_path, kind):
    taken = []

    def work(counter):
        while counter.take():
            taken.append(1)

    threads = [threading.Thread(target=work, args=(one,)) for one in counters(tmp_path, COUNT)[kind]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == COUNT


def take_all(path, results):
    counter = SharedCounter(path, COUNT)
    taken = 0
    while counter.take():
        taken += 1
    results.put(taken)


def test_processes_take_no_use_twice(tmp_path):
    spawn = multiprocessing.get_context("fork")
    results = spawn.SimpleQueue()
    processes = [spawn.Process(target=take_all, args=(tmp_path / "uses", results)) for _ in range(2)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
    assert results.get() + results.get() == COUNT
