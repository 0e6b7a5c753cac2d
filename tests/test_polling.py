"""The waits of the tests: a failing wait says what was seen."""

import asyncio

import pytest

from support.polling import until, until_blocking


async def test_a_wait_returns_the_first_true_value():
    answers = iter([0, None, 7])
    assert await until(lambda: next(answers), "a number") == 7


async def test_a_wait_awaits_coroutine_functions():
    answers = iter([False, True])

    async def is_ready():
        await asyncio.sleep(0)
        return next(answers)

    assert await until(is_ready, "ready") is True


async def test_a_failing_wait_shows_the_operands_of_its_condition():
    sizes, wanted = {"log": [1, 2]}, 3
    with pytest.raises(AssertionError) as caught:
        await until(lambda: sizes["log"] and not len(sizes["log"]) < wanted, "the log is full", 0)
    assert str(caught.value) == (
        "not in 0 s: the log is full. Last seen: sizes['log'] = [1, 2]; len(sizes['log']) = 2; wanted = 3"
    )


def test_a_failing_wait_shows_the_value_of_a_condition_without_comparison():
    def is_ready():
        return []

    with pytest.raises(AssertionError, match=r"not in 0 s: ready\. Last seen: the condition is \[\]"):
        until_blocking(is_ready, "ready", 0)


def test_an_operand_that_raises_is_shown_with_its_error():
    values = [False]
    with pytest.raises(AssertionError, match=r"values.pop\(\) raises IndexError\('pop from empty list'\)"):
        until_blocking(lambda: values.pop(), "a value", -1)


def test_of_a_long_value_the_begin_and_the_end_are_shown():
    log = "started " + 3000 * "." + " stopped"
    with pytest.raises(AssertionError, match=r"log = 'started \..*\(3018 characters\).*\. stopped'$"):
        until_blocking(lambda: "failed" in log, "the failure is logged", 0)


@pytest.mark.parametrize("limit", [3])
def test_default_arguments_of_a_condition_are_known(limit):
    with pytest.raises(AssertionError, match="least = 3"):
        until_blocking(lambda least=limit: least < 0, "negative", 0)
