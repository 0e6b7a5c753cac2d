"""How long the console waits for one broker, and which brokers did not answer in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from client.errors import ApiNotServedError, KafkaError
from console.rest.errors import not_served

PATIENCE_S: Final = 3.0
"""Seconds for one part of an answer. A slow or dead broker holds a page no longer than this."""

K = TypeVar("K")
T = TypeVar("T")


class Problems:
    """What could not be found out, one sentence each."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def add(self, sentence: str) -> None:
        """Add a sentence once."""
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    async def bounded(self, ask: Callable[[], Awaitable[T]], who: str, patience_s: float = PATIENCE_S) -> T | None:
        """Return an answer; None if there is an error or no answer in time, which is noted.

        ask: is called when this begins, which a task that is cancelled early never does.
        who: begins the sentence.
        """
        try:
            async with asyncio.timeout(patience_s):
                return await ask()
        except TimeoutError:
            self.add(f"{who} did not answer within {patience_s:g} s.")
        except ApiNotServedError as error:
            self.add(not_served(error))
        except KafkaError as error:
            self.add(f"{who}: {error}")
        return None

    async def of_brokers(self, parts: Mapping[int, K], ask: Callable[[K], Awaitable[T]]) -> dict[int, T]:
        """Ask brokers at the same time, and return the answers by broker id, without those that did not come.

        parts: what to ask each broker for.
        """
        asked = (self.bounded(partial(ask, part), f"Broker {broker_id}") for broker_id, part in parts.items())
        answers = await asyncio.gather(*asked)
        return {broker_id: one for broker_id, one in zip(parts, answers, strict=True) if one is not None}
