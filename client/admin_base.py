"""What the parts of the admin client share: the cluster, how long a call may take, and who answers for what.

Partitions are asked of their leaders, groups and transactional ids of their coordinators: FindCoordinator names these,
for many keys at once from version 4 on (KIP-699). A coordinator that has moved, is being loaded or cannot be reached is
looked for again until the call's time is up.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import IntEnum
from typing import TypeVar

from client.cluster import Cluster
from client.connection import Connection
from client.errors import KafkaError, error_for
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")

_FIRST_VERSION_WITH_KEYS = 4


class CoordinatorType(IntEnum):
    """What a coordinator coordinates, as FindCoordinator counts."""

    GROUP = 0
    TRANSACTION = 1


class AdminBase:
    """The base of every part of `client.admin.Admin`."""

    def __init__(self, cluster: Cluster, *, timeout_s: float, request_timeout_ms: int) -> None:
        """timeout_s: of a call with its retries. request_timeout_ms: of one request."""
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._request_timeout_ms = request_timeout_ms

    async def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """These partitions by the node id of their leader. Raises for one that does not exist or has none."""
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

    async def _ask_brokers(self, ask: Callable[[int, Connection], Awaitable[T]]) -> list[T]:
        """The answers of all brokers, each asked again for itself while its error is retriable."""
        await self._cluster.refresh([])
        answers = []
        for node_id in sorted(self._cluster.metadata.brokers):

            async def attempt(node_id: int = node_id) -> T:
                return await ask(node_id, await self._cluster.connection(node_id))

            answers.append(await self._cluster.retry(attempt, timeout_s=self._timeout_s))
        return answers

    async def _ask_coordinators(
        self,
        kind: CoordinatorType,
        keys: Iterable[str],
        ask: Callable[[int, Connection, list[str]], Awaitable[dict[str, T | KafkaError]]],
    ) -> dict[str, T | KafkaError]:
        """What the coordinators answer for each key, in the order of the keys.

        `ask` is called with a coordinator's node id, the connection to it and its keys, and gives for each key its
        answer or its error. Keys whose error is retriable are asked for again; the last such error is raised when time
        is up.
        """
        wanted = list(dict.fromkeys(keys))
        found: dict[str, T | KafkaError] = {}

        async def attempt() -> None:
            failed: KafkaError | None = None
            by_node: dict[int, list[str]] = {}
            located = await self._find_coordinators(kind, [key for key in wanted if key not in found])
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
        """What the coordinator of one key answers. Raises what `ask` does, once it is not retriable or time is up."""

        async def attempt() -> T:
            (node,) = (await self._find_coordinators(kind, [key])).values()
            if isinstance(node, KafkaError):
                raise node
            return await ask(await self._cluster.connection(node))

        return await self._cluster.retry(attempt, timeout_s=self._timeout_s)

    async def _find_coordinators(self, kind: CoordinatorType, keys: Sequence[str]) -> dict[str, int | KafkaError]:
        """The node id of each key's coordinator, or the error for it."""
        connection = await self._cluster.any_connection()
        version = connection.common_version(FindCoordinatorRequest)
        label = "group" if kind is CoordinatorType.GROUP else "transactional id"
        found: dict[str, int | KafkaError] = {}
        if version >= _FIRST_VERSION_WITH_KEYS:
            request = FindCoordinatorRequest(key_type=int(kind), coordinator_keys=list(keys))
            response = await connection.call(request, FindCoordinatorResponse, version)
            for one in response.coordinators:
                error = error_for(one.error_code, one.error_message, context=f"{label} {one.key}")
                found[one.key] = error if one.error_code else one.node_id
            return found
        for key in keys:
            request = FindCoordinatorRequest(key=key, key_type=int(kind))
            response = await connection.call(request, FindCoordinatorResponse, version)
            error = error_for(response.error_code, response.error_message, context=f"{label} {key}")
            found[key] = error if response.error_code else response.node_id
        return found
