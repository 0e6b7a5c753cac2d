"""Moving partitions to other replicas (KIP-455).

    replicas = target, then the other old replicas;  adding = target - old;  removing = old - target

This is written into the topic's znode first, so that the next controller can continue. While a target replica is not in
sync, the leader has a new epoch, knows the larger set, and takes the new replicas into the ISR. When all are in sync:

1. a target replica is the leader (a new one is elected if necessary), with a new epoch in any case;
2. the replicas to remove leave the ISR, one write each; their brokers stop and delete them;
3. the topic's znode gets the target alone, and only now: no other place names the old replicas.

Cancelling is a reassignment to the old replicas. A tool's request in `/admin/reassign_partitions` is carried out in the
same way, partition by partition; the znode is deleted with the last one. Deleting a topic ends its reassignments.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import NamedTuple

from broker.controller.context import ControllerContext, TopicPartition
from broker.controller.partition_states import PartitionStates
from broker.controller.partitions import PartitionLeaders
from broker.controller.stopped_replicas import StoppedReplicas
from broker.controller.topic_assignments import TopicAssignments
from broker.errors import RequestError
from protocol.error_codes import ErrorCode
from registry.errors import NoNodeError, ZnodeFormatError
from registry.interface import Delete, Op, Registry, Set
from registry.znodes.admin import ReassignPartitionsZnode

logger = logging.getLogger(__name__)


class Reassignment(NamedTuple):
    """The replicas of a partition during a reassignment."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]

    @property
    def target(self) -> list[int]:
        """The replicas after the reassignment."""
        return [one for one in self.replicas if one not in self.removing]

    @property
    def origin(self) -> list[int]:
        """The replicas before the reassignment."""
        return [one for one in self.replicas if one not in self.adding]

    def towards(self, target: list[int]) -> Reassignment:
        """Return the reassignment from the old replicas to another target."""
        origin = self.origin
        return Reassignment(
            replicas=[*target, *(one for one in origin if one not in target)],
            adding=[one for one in target if one not in origin],
            removing=[one for one in origin if one not in target],
        )


class Reassignments:
    """Begins, continues and finishes reassignments."""

    def __init__(
        self,
        registry: Registry,
        context: ControllerContext,
        states: PartitionStates,
        leaders: PartitionLeaders,
        topics: TopicAssignments,
        stopped: StoppedReplicas,
    ) -> None:
        self._registry = registry
        self._context = context
        self._states = states
        self._leaders = leaders
        self._topics = topics
        self._stopped = stopped

    def current(self, key: TopicPartition) -> Reassignment:
        """Return the present replicas of a partition."""
        topic, partition = key
        znode = self._context.topics[topic]
        return Reassignment(
            list(znode.partitions[partition]),
            list(znode.adding_replicas.get(partition, [])),
            list(znode.removing_replicas.get(partition, [])),
        )

    # -- by request ----------------------------------------------------------------------------------------------------

    async def submit(self, key: TopicPartition, target: list[int] | None) -> None:
        """Begin, change or (None) cancel a reassignment. Raises RequestError."""
        self._check_exists(key)
        current = self.current(key)
        is_moving = self._context.is_reassigning(key)
        if target is None:
            if not is_moving:
                raise RequestError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
            target = current.origin
        else:
            self._check_target(current.towards(target), target)
        await self._remove_requested([key])  # the latest request counts
        await self._begin(key, current.towards(target))

    def _check_exists(self, key: TopicPartition) -> None:
        if key[0] in self._context.deleting or not self._context.partition_exists(key):
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")

    def _check_target(self, reassignment: Reassignment, target: list[int]) -> None:
        if not target:
            problem = "Empty replica list specified in partition reassignment."
        elif len(set(target)) != len(target):
            problem = f"Duplicate replica ids in partition reassignment replica list: {target}"
        elif min(target) < 0:
            problem = f"Invalid broker id in replica list: {target}"
        else:
            live = self._context.brokers.keys() - self._context.shutting_down
            dead = [one for one in reassignment.adding if one not in live]
            if not dead:
                return
            problem = (
                "Replica assignment has brokers that are not alive. "
                f"Replica list: {reassignment.adding}, live broker list: {sorted(live)}"
            )
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)

    # -- by znode ------------------------------------------------------------------------------------------------------

    async def read_requested(self) -> None:
        """Begin what a tool has requested in /admin/reassign_partitions; remove requests that are impossible."""
        failed = []
        for key, target in (await self._requested()).items():
            try:
                self._check_exists(key)
                if not target or len(set(target)) != len(target):
                    raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{target} is empty or has duplicates")
            except RequestError as error:
                logger.error("%s: %s-%d is ignored: %s", ReassignPartitionsZnode.path(), *key, error)
                failed.append(key)
                continue
            current = self.current(key)
            if not self._context.is_reassigning(key) or current.target != target:
                await self._begin(key, current.towards(target))
        await self._remove_requested(failed)

    async def _requested(self) -> dict[TopicPartition, list[int]]:
        path = ReassignPartitionsZnode.path()
        try:
            data, _ = await self._registry.get(path)
            return ReassignPartitionsZnode.decode(data, path).partitions
        except NoNodeError:
            return {}
        except ZnodeFormatError as error:
            logger.error("a request for reassignments is ignored: %s", error)
            return {}

    async def _remove_requested(self, keys: Collection[TopicPartition]) -> None:
        """Remove finished or impossible reassignments from the znode."""
        requested = await self._requested()
        left = {key: target for key, target in requested.items() if key not in keys}
        if len(left) == len(requested):
            return
        path = ReassignPartitionsZnode.path()
        change: Op = Set(path, ReassignPartitionsZnode(partitions=left).encode()) if left else Delete(path)
        await self._registry.multi([self._context.epoch_check(), change])

    # -- progress ------------------------------------------------------------------------------------------------------

    async def _begin(self, key: TopicPartition, wanted: Reassignment) -> None:
        current = self.current(key)
        logger.info("%s-%d is reassigned from %s to %s", *key, current.origin, wanted.target)
        is_change = wanted != current
        if is_change:
            await self._topics.set_replicas(key, wanted.replicas, adding=wanted.adding, removing=wanted.removing)
            await self._stop(key, [one for one in current.replicas if one not in wanted.replicas])
        await self._states.read([key])
        if self._is_complete(key, wanted):
            await self._finish(key, wanted)
        else:
            await self._leaders.renew_epoch(key)

    async def resume(self) -> None:
        """Finish the reassignments that are complete now."""
        for key in self._context.reassigning():
            current = self.current(key)
            if self._is_complete(key, current):
                await self._finish(key, current)

    async def brokers_registered(self, broker_ids: Collection[int]) -> None:
        """Renew the leader epoch of partitions that move to brokers that have just registered."""
        for key in self._context.reassigning():
            current = self.current(key)
            if not self._is_complete(key, current) and set(current.target) & set(broker_ids):
                await self._leaders.renew_epoch(key)

    def _is_complete(self, key: TopicPartition, reassignment: Reassignment) -> bool:
        if not reassignment.adding and not reassignment.removing:
            return True
        leadership = self._context.leaderships.get(key)
        return leadership is not None and set(reassignment.target) <= set(leadership.state.isr)

    async def _finish(self, key: TopicPartition, reassignment: Reassignment) -> None:
        """Finish a reassignment. Each step can be repeated: the znode names the old replicas until the last step."""
        target = reassignment.target
        leadership = self._context.leaderships.get(key)
        if leadership is not None:
            leader = leadership.state.leader
            if leader in target and self._context.is_eligible(leader, key):
                await self._leaders.renew_epoch(key)
            elif not await self._leaders.elect_for_reassignment(key, target):
                logger.warning("%s-%d: none of %s can lead yet", *key, target)
                return
        await self._stop(key, reassignment.removing)
        await self._topics.set_replicas(key, target, adding=[], removing=[])
        await self._remove_requested([key])
        self._states.publish([key])
        logger.info("%s-%d is now on %s", *key, target)

    async def _stop(self, key: TopicPartition, replicas: Collection[int]) -> None:
        for replica in sorted(replicas):
            await self._leaders.remove_from_isr(replica, [key])
            self._stopped.stop(replica, key, delete=True)
