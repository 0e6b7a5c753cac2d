"""How long the console waits for one broker, and which brokers did not answer in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from client.errors import ApiNotServedError, KafkaError
from console.rest.errors import not_served

PATIENCE_S: Final = 3.0
"""Seconds for one part of an answer. A slow or dead broker holds a page no longer than this."""

T = TypeVar("T")


class Problems:
    """What could not be found out, one sentence each."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def add(self, sentence: str) -> None:
        """Add a sentence once."""
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    async def bounded(self, asked: Awaitable[T], who: str, patience_s: float = PATIENCE_S) -> T | None:
        """Return an answer; None if there is an error or no answer in time, which is noted.

        who: begins the sentence.
        """
        try:
            async with asyncio.timeout(patience_s):
                return await asked
        except TimeoutError:
            self.add(f"{who} did not answer within {patience_s:g} s.")
        except ApiNotServedError as error:
            self.add(not_served(error))
        except KafkaError as error:
            self.add(f"{who}: {error}")
        return None
