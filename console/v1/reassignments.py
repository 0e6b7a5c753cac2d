"""Leader elections, and reassignments: what is moving and how far it is, the plan of a move, its start and its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from client.admin.types import ElectionType, LogDirDescription, Reassignment
from client.errors import ElectionNotNeededError, KafkaError
from client.topic_partition import TopicPartition
from console.rest.call import Call
from console.rest.errors import RestError
from console.rest.models import Answer, Asked, Name
from console.rest.operation import ApiOperation, Right
from console.watching.patience import Problems
from console.watching.snapshot import log_dirs
from security.acls.types import Operation

MAX_PARTITIONS: Final = 10_000


class PartitionName(Asked):
    """A partition."""

    topic: Name
    partition: Annotated[int, Field(ge=0)]

    @property
    def name(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class Outcome(Answer):
    """What became of a partition. `error` is null if it succeeded."""

    topic: str
    partition: int
    error: str | None


class Outcomes(Answer):
    """What became of the partitions."""

    done: int
    failed: list[Outcome]


class NewElection(Asked):
    """An election for some partitions; null: for all that need one."""

    type: Literal["preferred", "unclean"] = "preferred"
    partitions: Annotated[list[PartitionName], Field(min_length=1, max_length=MAX_PARTITIONS)] | None = None


class Move(Answer):
    """A partition that is being moved.

    `progress` is the smallest share (0 to 1) of the leader's bytes that a new replica has; null if it is unknown.
    """

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    target: list[int]
    progress: float | None


class Moves(Answer):
    """The partitions that are being moved."""

    moves: list[Move]
    problems: list[str]


class NewReassignment(Asked):
    """Partitions of a topic that get replicas on these brokers only.

    `partitions`: null for all. `replication_factor`: null keeps that of each partition. `dry_run`: only plan.
    """

    topic: Name
    partitions: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    brokers: Annotated[list[int], Field(min_length=1, max_length=1000)]
    replication_factor: Annotated[int, Field(ge=1, le=1000)] | None = None
    dry_run: bool = False


class PlannedMove(Answer):
    """A partition with its replicas now and after the move, preferred leader first."""

    topic: str
    partition: int
    replicas: list[int]
    target: list[int]


class Plan(Answer):
    """What a reassignment moves. Partitions that stay where they are do not appear."""

    moves: list[PlannedMove]
    failed: list[Outcome]
    """Moves that the controller refused; the others have started."""


class AssignedReplicas(Asked):
    """A partition and its new replicas, the preferred leader first."""

    topic: Name
    partition: Annotated[int, Field(ge=0)]
    replicas: Annotated[list[int], Field(min_length=1, max_length=1000)]


class Assignment(Asked):
    """Partitions that get exactly these replicas."""

    moves: Annotated[list[AssignedReplicas], Field(min_length=1, max_length=MAX_PARTITIONS)]


class CancelledMoves(Asked):
    """Partitions whose moves are cancelled: they get their previous replicas."""

    partitions: Annotated[list[PartitionName], Field(min_length=1, max_length=MAX_PARTITIONS)]


async def elect_leaders(call: Call) -> Outcomes:
    """Elect leaders. Partitions that need no election count neither as done nor as failed."""
    asked: NewElection = call.asked
    wanted = None if asked.partitions is None else [one.name for one in asked.partitions]
    return _outcomes(await call.admin.elect_leaders(wanted, ElectionType[asked.type.upper()]))


async def list_moves(call: Call) -> Moves:
    """List the reassignments in progress, with the progress of their new replicas."""
    problems = Problems()
    found = await problems.bounded(call.admin.list_partition_reassignments, "The controller") or {}
    moving = {name: one for name, one in found.items() if call.sees_topic(name.topic)}
    if not moving:
        return Moves(moves=[], problems=problems.sentences)
    brokers = {broker.node_id for broker in (await call.admin.describe_cluster()).brokers}
    involved = brokers & {replica for one in moving.values() for replica in one.replicas}
    sizes = _sizes(await log_dirs(call.admin, sorted(involved), problems))
    topics = await call.admin.describe_topics({name.topic for name in moving})
    leaders = {name: topics[name.topic].partitions[name.partition].leader for name in moving}
    return Moves(
        moves=[
            Move(
                topic=name.topic,
                partition=name.partition,
                replicas=list(one.replicas),
                adding=list(one.adding),
                removing=list(one.removing),
                target=list(one.target),
                progress=progress(one, leaders[name], sizes.get(name, {})),
            )
            for name, one in moving.items()
        ],
        problems=problems.sentences,
    )


def _sizes(logs: Mapping[int, list[LogDirDescription]]) -> dict[TopicPartition, dict[int, int]]:
    found: dict[TopicPartition, dict[int, int]] = {}
    for broker_id, dirs in logs.items():
        for one in (replica for log in dirs for replica in log.replicas if not replica.is_future):
            found.setdefault(TopicPartition(one.topic, one.partition), {})[broker_id] = one.size_bytes
    return found


def progress(move: Reassignment, leader: int, sizes: Mapping[int, int]) -> float | None:
    """Return how far a move is, from 0 to 1; None if it is unknown. sizes: bytes of the replica on each broker."""
    whole = sizes.get(leader)
    if whole is None:
        return None
    if not move.adding or whole == 0:
        return 1.0
    return min(1.0, *(sizes.get(broker, 0) / whole for broker in move.adding))


async def start_moves(call: Call) -> Plan:
    """Move partitions of a topic to other brokers; with dry_run, only return the plan."""
    asked: NewReassignment = call.asked
    topic = (await call.admin.describe_topics([asked.topic]))[asked.topic]
    alive = {broker.node_id for broker in (await call.admin.describe_cluster()).brokers}
    if dead := sorted(set(asked.brokers) - alive):
        raise RestError(400, f"brokers: the cluster has no live broker {dead[0]}")
    numbers = sorted(topic.partitions) if asked.partitions is None else sorted(set(asked.partitions))
    if missing := [number for number in numbers if number not in topic.partitions]:
        raise RestError(400, f"partitions: topic {asked.topic} has no partition {missing[0]}")
    now = {number: topic.partitions[number].replicas for number in numbers}
    planned = plan(now, sorted(set(asked.brokers)), asked.replication_factor)
    moves = {TopicPartition(asked.topic, number): target for number, target in planned.items()}
    failed: list[Outcome] = []
    if moves and not asked.dry_run:
        failed = _outcomes(await call.admin.alter_partition_reassignments(moves)).failed
    return Plan(
        moves=[
            PlannedMove(topic=name.topic, partition=name.partition, replicas=list(now[name.partition]), target=target)
            for name, target in moves.items()
        ],
        failed=failed,
    )


def plan(now: Mapping[int, Sequence[int]], brokers: Sequence[int], factor: int | None) -> dict[int, list[int]]:
    """Return the new replicas of the partitions that have to move.

    Replicas that are on one of the brokers stay, so that little is copied; others go to the brokers with the fewest
    replicas. Raises RestError if there are fewer brokers than replicas.
    """
    needed = factor or max(map(len, now.values()), default=0)
    if needed > len(brokers):
        raise RestError(400, f"brokers: {needed} replicas need {needed} brokers, not {len(brokers)}")
    kept = {
        number: [one for one in replicas if one in brokers][: factor or len(replicas)]
        for number, replicas in now.items()
    }
    load = Counter(one for replicas in kept.values() for one in replicas)
    found = {}
    for number, replicas in now.items():
        target = kept[number]
        while len(target) < (factor or len(replicas)):
            free = [one for one in brokers if one not in target]
            chosen = min(free, key=lambda one: (load[one], (one - number) % (max(brokers) + 1)))
            load[chosen] += 1
            target.append(chosen)
        if target != list(replicas):
            found[number] = target
    return found


async def assign(call: Call) -> Outcomes:
    """Move partitions to the named replicas."""
    asked: Assignment = call.asked
    moves = {TopicPartition(one.topic, one.partition): one.replicas for one in asked.moves}
    return _outcomes(await call.admin.alter_partition_reassignments(moves))


async def cancel_moves(call: Call) -> Outcomes:
    """Cancel reassignments: the partitions get their previous replicas."""
    asked: CancelledMoves = call.asked
    return _outcomes(await call.admin.alter_partition_reassignments({one.name: None for one in asked.partitions}))


def _outcomes(found: Mapping[TopicPartition, KafkaError | None]) -> Outcomes:
    return Outcomes(
        done=sum(error is None for error in found.values()),
        failed=[
            Outcome(topic=name.topic, partition=name.partition, error=str(error))
            for name, error in sorted(found.items())
            if error is not None and not isinstance(error, ElectionNotNeededError)
        ],
    )


_ALTER: Final = Right(Operation.ALTER)
OPERATIONS: Final = (
    ApiOperation("POST", "/elections", elect_leaders, _ALTER, Outcomes, takes=NewElection),
    ApiOperation("GET", "/reassignments", list_moves, Right(Operation.DESCRIBE), Moves),
    ApiOperation("POST", "/reassignments", start_moves, _ALTER, Plan, takes=NewReassignment),
    ApiOperation("POST", "/reassignments:assign", assign, _ALTER, Outcomes, takes=Assignment),
    ApiOperation("POST", "/reassignments:cancel", cancel_moves, _ALTER, Outcomes, takes=CancelledMoves),
)
