"""Waiting: by key, until satisfied or until time is up, and nothing left behind."""

from __future__ import annotations

import asyncio

import pytest

from replication.purgatory import Purgatory


class Operation:
    def __init__(self, answer="answer"):
        self.satisfied = False
        self.asked = 0
        self.completed = 0
        self.answer = answer

    def is_satisfied(self):
        self.asked += 1
        return self.satisfied

    def complete(self):
        self.completed += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def empty(purgatory):
    await asyncio.sleep(0)  # callbacks of futures run in the next round of the loop
    assert purgatory.size == 0
    assert not purgatory._waiters


async def test_a_check_of_any_key_completes_once():
    purgatory, operation = Purgatory(), Operation()
    waiting = purgatory.wait(operation, ["a", "b", "b"], 60)
    purgatory.check("c")
    assert operation.asked == 0
    purgatory.check("a")
    assert (operation.asked, waiting.done()) == (1, False)
    operation.satisfied = True
    purgatory.check("b")
    assert await waiting == "answer"
    purgatory.check("a")
    assert operation.completed == 1
    await empty(purgatory)


async def test_a_timeout():
    purgatory, operation = Purgatory(), Operation("late")
    assert await purgatory.wait(operation, ["a"], 0.01) == "late"
    assert operation.completed == 1
    await empty(purgatory)


@pytest.mark.parametrize("timeout_s", [0, -5])
async def test_a_timeout_of_zero(timeout_s):
    purgatory = Purgatory()
    assert await purgatory.wait(Operation(), ["a"], timeout_s) == "answer"
    await empty(purgatory)


async def test_cancelled():
    purgatory, operation, other = Purgatory(), Operation(), Operation()
    waiting = purgatory.wait(operation, ["a", "b"], 60)
    staying = purgatory.wait(other, ["a"], 60)
    waiting.cancel()
    await asyncio.sleep(0)
    assert purgatory.size == 1
    operation.satisfied = other.satisfied = True
    purgatory.check("a")
    assert operation.completed == 0
    assert await staying == "answer"
    await empty(purgatory)


async def test_without_keys_only_the_timeout_completes_it():
    purgatory = Purgatory()
    assert await purgatory.wait(Operation(), [], 0.01) == "answer"
    await empty(purgatory)


async def test_complete_all():
    purgatory = Purgatory()
    operations = [Operation(i) for i in range(5)]
    waiting = [purgatory.wait(operation, [i, i + 1], 60) for i, operation in enumerate(operations)]
    purgatory.complete_all()
    assert [await one for one in waiting] == list(range(5))
    assert [operation.completed for operation in operations] == [1] * 5
    await empty(purgatory)


async def test_an_error_is_raised_in_the_waiter():
    purgatory = Purgatory()
    waiting = purgatory.wait(Operation(ValueError("x")), ["a"], 0.001)
    with pytest.raises(ValueError, match="x"):
        await waiting
    await empty(purgatory)


async def test_one_check_completes_all_satisfied_operations():
    purgatory = Purgatory()
    operations = [Operation(i) for i in range(4)]
    waiting = [purgatory.wait(operation, ["a"], 60) for operation in operations]
    operations[1].satisfied = operations[3].satisfied = True
    purgatory.check("a")
    assert [one.done() for one in waiting] == [False, True, False, True]
    await asyncio.sleep(0)
    assert purgatory.size == 2
    purgatory.complete_all()
    await empty(purgatory)


async def test_an_exception_of_a_check_is_raised_in_the_waiter():
    """Whoever appends must not."""

    class Broken(Operation):
        def is_satisfied(self):
            raise ZeroDivisionError

    purgatory = Purgatory()
    sound = Operation()
    sound.satisfied = True
    failing, waiting = purgatory.wait(Broken(), ["t"], 60), purgatory.wait(sound, ["t"], 60)
    purgatory.check("t")
    assert await waiting == "answer"
    with pytest.raises(ZeroDivisionError):
        await failing
    await empty(purgatory)


async def test_cancelled_operations_are_not_checked():
    purgatory = Purgatory()
    operation = Operation()
    purgatory.wait(operation, ["t"], 60).cancel()
    purgatory.check("t")  # before the wait is forgotten
    assert operation.asked == 0
    await empty(purgatory)
