"""Waiting until every broker of a cluster knows something: they learn it one after the other, and clients ask any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from protocol.messages.metadata import MetadataRequest
from support.polling import until_blocking
from support.wire import wire_client


def until_every_broker(bootstraps: Iterable[str], condition: Callable[[set[int], set[str]], bool], what: str) -> None:
    """Wait until the condition holds for the ids of the brokers, and the names of the topics, that each broker knows.

    bootstraps: the addresses of all brokers. For tests without an event loop.
    """

    async def known(bootstrap: str) -> tuple[set[int], set[str]]:
        async with wire_client(bootstrap) as client:
            answer = await client.call(MetadataRequest(topics=None))
        return {one.node_id for one in answer.brokers}, {one.name for one in answer.topics}

    for bootstrap in bootstraps:
        until_blocking(lambda: condition(*asyncio.run(known(bootstrap))), what)  # noqa: B023 - called at once
