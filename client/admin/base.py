"""The base of the parts of the admin client: the cluster, the timeouts, and which broker a request goes to.

Requests for partitions go to their leaders, those for groups and transactional ids to their coordinators. A coordinator
that has moved, is loading or cannot be reached is looked up again until the call's timeout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

from client.admin.options import AdminOptions
from client.errors import KafkaError, error_for
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from client.wire.connection import Connection
from client.wire.coordinator import CoordinatorType, find_coordinator, find_coordinators
from protocol.error_codes import ErrorCode

T = TypeVar("T")


class AdminBase:
    """The base of every part of `client.admin.admin.Admin`."""

    def __init__(self, options: AdminOptions) -> None:
        self._cluster = Cluster(options)
        self._timeout_s = options.default_api_timeout_ms / 1000
        self._request_timeout_ms = options.request_timeout_ms

    async def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """These partitions by the node id of their leader. Raises if one does not exist or has no leader."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            await self._cluster.topic(partition.topic, timeout_s=self._timeout_s, tolerate_unknown_s=0)
            metadata = self._cluster.metadata
            if metadata.partition(partition) is None:
                raise error_for(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"no partition {partition.partition}",
                    context=partition.topic,
                )
            leader = metadata.leader(partition)
            if leader is None:
                raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, context=str(partition))
            by_leader.setdefault(leader, []).append(partition)
        return by_leader

    async def _need_brokers(self, brokers: Collection[int] | None) -> None:
        """Refresh the metadata, unless all of these brokers are known: one that does not answer may be asked for it."""
        if brokers is None or not self._cluster.metadata.brokers.keys() >= set(brokers):
            await self._cluster.refresh([])

    async def _ask_brokers(
        self, ask: Callable[[int, Connection], Awaitable[T]], brokers: Iterable[int] | None = None
    ) -> list[T]:
        """The answers of these brokers, or of all, which are asked at the same time.

        Each request is retried separately if its error is retriable.
        """
        wanted = None if brokers is None else list(brokers)
        await self._need_brokers(wanted)

        async def answer(node_id: int) -> T:
            async def attempt() -> T:
                return await ask(node_id, await self._cluster.connection(node_id))

            return await self._cluster.retry(attempt, timeout_s=self._timeout_s)

        known = self._cluster.metadata.brokers if wanted is None else wanted
        asked = [asyncio.create_task(answer(node_id)) for node_id in sorted(known)]
        try:
            return await asyncio.gather(*asked)
        finally:
            for one in asked:
                one.cancel()

    async def _ask_coordinators(
        self,
        kind: CoordinatorType,
        keys: Iterable[str],
        ask: Callable[[int, Connection, list[str]], Awaitable[dict[str, T | KafkaError]]],
    ) -> dict[str, T | KafkaError]:
        """The coordinators' answers for each key, in the order of the keys.

        `ask` is called with a coordinator's node id, the connection to it and its keys; it returns the answer or the
        error of each key. Keys with a retriable error are requested again; after the timeout, the last such error is
        raised.
        """
        wanted = list(dict.fromkeys(keys))
        found: dict[str, T | KafkaError] = {}

        async def attempt() -> None:
            failed: KafkaError | None = None
            by_node: dict[int, list[str]] = {}
            located = await find_coordinators(self._cluster, kind, [key for key in wanted if key not in found])
            for key, node in located.items():
                if not isinstance(node, KafkaError):
                    by_node.setdefault(node, []).append(key)
                elif node.retriable:
                    failed = node
                else:
                    found[key] = node
            for node_id, part in by_node.items():
                answers = await ask(node_id, await self._cluster.connection(node_id), part)
                for key, answer in answers.items():
                    if isinstance(answer, KafkaError) and answer.retriable:
                        failed = answer
                    else:
                        found[key] = answer
            if failed is not None:
                raise failed

        if wanted:
            await self._cluster.retry(attempt, timeout_s=self._timeout_s)
        return {key: found[key] for key in wanted}

    async def _ask_coordinator(self, kind: CoordinatorType, key: str, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """The answer of one key's coordinator. Raises the error of `ask`, a retriable one only after the timeout."""

        async def attempt() -> T:
            node = await find_coordinator(self._cluster, kind, key)
            return await ask(await self._cluster.connection(node))

        return await self._cluster.retry(attempt, timeout_s=self._timeout_s)
