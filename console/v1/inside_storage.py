"""The files of a partition on a broker of Ottla: segments, indexes, batches, and the search of an offset."""

from __future__ import annotations

from typing import Final

from console.inspection.storage import BatchPage, IndexPage, OffsetSearch, PartitionStorage
from console.rest.call import Call
from console.rest.operation import ApiOperation, Parameter, Right
from console.v1.inside import asked_number, asked_partition, inside_of, refusals
from security.acls.types import Operation


async def get_storage(call: Call) -> PartitionStorage:
    """Return the log of a partition on this broker: segments and their files, offsets, leader epochs, producers.

    At most 100 segments, from the number `first` on; by default the newest ones. Only a broker of Ottla has this.
    """
    topic, partition = asked_partition(call)
    first = asked_number(call, "first") if "first" in call.query else None
    with refusals():
        return await inside_of(call).storage.partition(topic, partition, first)


async def get_index(call: Call) -> IndexPage:
    """Return up to 200 entries of an index of a segment, from the number `first` on, with absolute offsets.

    `segment` is the base offset. Only a broker of Ottla has this.
    """
    topic, partition = asked_partition(call)
    segment, first = asked_number(call, "segment"), asked_number(call, "first")
    with refusals():
        return await inside_of(call).storage.index(topic, partition, segment, call.query["index"], first)


async def get_batches(call: Call) -> BatchPage:
    """Return up to 50 batches of a segment as they are in the file, from `position` on; records are not shown.

    `segment` is the base offset. Only a broker of Ottla has this.
    """
    topic, partition = asked_partition(call)
    segment, position = asked_number(call, "segment"), asked_number(call, "position")
    with refusals():
        return await inside_of(call).storage.batches(topic, partition, segment, position)


async def search_offset(call: Call) -> OffsetSearch:
    """Return each step of a read that looks for an offset: segment, index, scan. Only a broker of Ottla has this."""
    topic, partition = asked_partition(call)
    with refusals():
        return await inside_of(call).storage.search(topic, partition, asked_number(call, "offset"))


_RIGHT: Final = Right(Operation.DESCRIBE)
"""The handlers ask for Describe on the topic, too."""
_PARTITION: Final = (Parameter("topic", is_required=True), Parameter("partition", is_required=True))
_SEGMENT: Final = (*_PARTITION, Parameter("segment", is_required=True))
_INDEX: Final = Parameter("index", is_required=True, choices=("OFFSET", "TIME", "TRANSACTION"))
OPERATIONS: Final = (
    ApiOperation(
        "GET", "/inside/storage", get_storage, _RIGHT, PartitionStorage, query=(*_PARTITION, Parameter("first"))
    ),
    ApiOperation(
        "GET", "/inside/storage/index", get_index, _RIGHT, IndexPage, query=(*_SEGMENT, _INDEX, Parameter("first"))
    ),
    ApiOperation(
        "GET", "/inside/storage/batches", get_batches, _RIGHT, BatchPage, query=(*_SEGMENT, Parameter("position"))
    ),
    ApiOperation(
        "GET",
        "/inside/storage/search",
        search_offset,
        _RIGHT,
        OffsetSearch,
        query=(*_PARTITION, Parameter("offset", is_required=True)),
    ),
)
