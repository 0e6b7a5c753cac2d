"""Answers in bounded time."""

import asyncio

from client.errors import ApiNotServedError, error_for
from console.watching.patience import Problems
from protocol.error_codes import ErrorCode


async def answer():
    return 5


async def refuse():
    raise error_for(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def lack():
    raise ApiNotServedError("127.0.0.1:9092", "LIST_GROUPS")


async def test_an_api_that_the_cluster_does_not_have_is_said_once():
    problems = Problems()
    for broker in (1, 2):
        assert await problems.bounded(lack(), f"Broker {broker}") is None
    assert problems.sentences == ["This cluster does not serve LIST_GROUPS."]


async def test_an_answer_an_error_and_no_answer():
    problems = Problems()
    assert await problems.bounded(answer(), "Broker 1") == 5
    assert problems.sentences == []
    assert await problems.bounded(refuse(), "Broker 2") is None
    for _ in range(2):
        assert await problems.bounded(asyncio.Event().wait(), "Broker 3", 0.001) is None
    refused, late = problems.sentences
    assert refused.startswith("Broker 2: ")
    assert late == "Broker 3 did not answer within 0.001 s."
