"""Answers in bounded time."""

import asyncio

from client.errors import ApiNotServedError, error_for
from console.watching.patience import Problems
from protocol.error_codes import ErrorCode
from support.cancelling import cancel_at_each_step


async def answer():
    return 5


async def refuse():
    raise error_for(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def lack():
    raise ApiNotServedError("127.0.0.1:9092", "LIST_GROUPS")


async def test_an_api_that_the_cluster_does_not_have_is_said_once():
    problems = Problems()
    for broker in (1, 2):
        assert await problems.bounded(lack, f"Broker {broker}") is None
    assert problems.sentences == ["This cluster does not serve LIST_GROUPS."]


async def test_an_answer_an_error_and_no_answer():
    problems = Problems()
    assert await problems.bounded(answer, "Broker 1") == 5
    assert problems.sentences == []
    assert await problems.bounded(refuse, "Broker 2") is None
    for _ in range(2):
        assert await problems.bounded(asyncio.Event().wait, "Broker 3", 0.001) is None
    refused, late = problems.sentences
    assert refused.startswith("Broker 2: ")
    assert late == "Broker 3 did not answer within 0.001 s."


async def test_brokers_that_do_not_answer_are_left_out():
    problems = Problems()
    asked = {1: answer, 2: refuse, 3: answer}
    assert await problems.of_brokers(asked, lambda ask: ask()) == {1: 5, 3: 5}
    (refused,) = problems.sentences
    assert refused.startswith("Broker 2: ")


async def test_whoever_goes_at_any_moment_leaves_no_question_behind():
    """A coroutine that is never awaited would be a warning, which fails a test."""
    await cancel_at_each_step(lambda: Problems().of_brokers({1: answer, 2: refuse}, lambda ask: ask()))
