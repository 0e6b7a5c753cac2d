"""Replication of a partition on a broker of Ottla: live, and the way of one record."""

from __future__ import annotations

import asyncio
import contextlib
from time import perf_counter
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field, StringConstraints

from client.errors import KafkaError
from console.inspection.errors import InspectionError
from console.inspection.replication import RecordTrace, ReplicationState, TraceStep
from console.rest.call import Call
from console.rest.errors import RestError
from console.rest.event_stream import event_stream
from console.rest.models import Asked, Name
from console.rest.operation import ApiOperation, Parameter, Right
from console.v1.inside import asked_partition, inside_of, refusals
from security.acls.types import Operation, ResourceType

PERIOD_S: Final = 0.2
TIMEOUT_S: Final = 10.0
Text = Annotated[str, StringConstraints(max_length=65_536)]


class FollowedRecord(Asked):
    """A record to write and to follow. Key and value are text."""

    topic: Name
    partition: Annotated[int, Field(ge=0, le=2**31 - 1)]
    key: Text | None = None
    value: Text


async def get_replication(call: Call) -> ReplicationState:
    """Return how far the replicas of a partition are. Only its leader, a broker of Ottla, knows the followers."""
    topic, partition = asked_partition(call)
    with refusals():
        return inside_of(call).replication.state(topic, partition)


async def watch_replication(call: Call) -> web.StreamResponse:
    """Tell live how far the replicas of a partition are: events `state`, up to five a second, if anything changes.

    An event `gone` ends it: the partition is no longer on this broker. Only a broker of Ottla has this.
    """
    topic, partition = asked_partition(call)
    replication = inside_of(call).replication
    with refusals():
        replication.state(topic, partition)
    async with event_stream(call) as events:
        before: ReplicationState | None = None
        async for _ in events.ticks(PERIOD_S):
            try:
                state = replication.state(topic, partition)
            except InspectionError:
                break
            if state != before:
                before = state
                await events.send("state", state)
    return events.response


async def follow_record(call: Call) -> RecordTrace:
    """Write a record with acks=all, and return its way with times in microseconds: socket, log, followers, commit.

    Only the console of the partition's leader, a broker of Ottla, has this.
    """
    asked: FollowedRecord = call.asked
    inside = inside_of(call)
    producer = await call.services.clients.producer()
    with refusals():
        trace = inside.replication.trace(asked.topic, asked.partition)
    try:
        key = None if asked.key is None else asked.key.encode()
        sent_s = perf_counter()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                written = await producer.send(asked.topic, asked.value.encode(), key=key, partition=asked.partition)
        except TimeoutError:
            raise RestError(
                504, f"The record was not acknowledged within {TIMEOUT_S:.0f} s; it may be written."
            ) from None
        answered = TraceStep(step="ANSWERED", broker_id=None, at_us=round((perf_counter() - sent_s) * 1e6))
        missing = await trace.settled(written.offset)
        steps = trace.steps(written.offset, sent_s)
    finally:
        trace.close()
    sent = TraceStep(step="SENT", broker_id=None, at_us=0)
    position, segment = await _place_of(call, asked, written.offset)
    return RecordTrace(
        topic=asked.topic,
        partition=asked.partition,
        offset=written.offset,
        position=position,
        segment=segment,
        steps=sorted([sent, *steps, answered], key=lambda one: one.at_us),
        missing=missing,
    )


async def _place_of(call: Call, asked: FollowedRecord, offset: int) -> tuple[int | None, int | None]:
    """Return the position of a record's batch and its segment, if they can still be found."""
    with contextlib.suppress(InspectionError, KafkaError):
        found = await inside_of(call).storage.search(asked.topic, asked.partition, offset)
        if found.is_found:
            return found.scanned[-1].position, found.base_offset
    return None, None


_PARTITION: Final = (Parameter("topic", is_required=True), Parameter("partition", is_required=True))
OPERATIONS: Final = (
    ApiOperation(
        "GET",
        "/inside/replication",
        get_replication,
        Right(Operation.DESCRIBE),
        ReplicationState,
        query=_PARTITION,
    ),
    ApiOperation(
        "GET",
        "/inside/replication/events",
        watch_replication,
        Right(Operation.DESCRIBE),
        query=_PARTITION,
        events=ReplicationState,
    ),
    ApiOperation(
        "POST",
        "/inside/replication/trace",
        follow_record,
        Right(Operation.WRITE, ResourceType.TOPIC, "topic"),
        RecordTrace,
        takes=FollowedRecord,
    ),
)
