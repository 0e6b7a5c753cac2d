"""A broker asks the controller to move leadership away before it stops.

Version 0 has a request header without client id.
"""

from __future__ import annotations

from protocol.fields import array, int16, int32, int64, string
from protocol.message import Message


class ControlledShutdownRequest(Message, api_key=7, versions="0-3", flexible="3+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class RemainingPartition(Message):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class ControlledShutdownResponse(Message, api_key=7, versions="0-3", flexible="3+"):
    error_code: int = int16("0+")
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition, "0+")
