"""The streaming source: on the driver it plans where each batch ends; on executors the ranges are read.

A stream's offset contains the offset of the next record of every partition (see topic_offsets). Spark keeps the end of
every batch in the checkpoint, and requests only offsets that are not there. `latestOffset` adds new partitions, detects
data loss, and applies the limits of a trigger.
"""

import time
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark_connector.batch_reader import read_range
from spark_connector.errors import LOSS_ADVICE, DataLossError
from spark_connector.event_loop import run
from spark_connector.group_progress import GroupProgress
from spark_connector.offset_lookup import OffsetLookup
from spark_connector.range_planner import count, divided, limited, losses, ranges_of
from spark_connector.retry import until_reached
from spark_connector.source_options import SourceOptions
from spark_connector.topic_offsets import START, Offsets, from_json, start_of, to_json

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream. On the driver it lives as long as the query; a pickled copy only reads ranges."""

    def __init__(self, options: SourceOptions, schema: StructType, now_ms: Callable[[], float] | None = None) -> None:
        """`now_ms` is a monotonic clock."""
        self._options = options
        self._schema = schema
        self._now_ms = now_ms or _monotonic_ms
        self._lookup: OffsetLookup | None = None
        self._initial: dict[str, Any] | None = None
        # The end offsets for a query with Trigger.AvailableNow.
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._last_batch_ms = float("-inf")
        self._progress = GroupProgress(options.commit_group_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return (OttlaStreamReader, (self._options, self._schema))

    # ---- start and end offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The start of a new query. Spark calls this twice and gets the same answer."""
        if self._initial is None:
            self._initial = to_json(self._ask(self._begin))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Tell Spark that there are limits. Spark passes on only one, so `latestOffset` applies them itself."""
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        return ReadAllAvailable() if options.min_offsets is None else ReadMinRows(options.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end offsets now; later records are not read."""
        self._target = self._ask(lambda: self._ends({}))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; `start` itself if there is nothing to read.

        Raises DataLossError if partitions no longer exist, or end before `start`.
        """
        known = from_json(start)
        end = self._ask(lambda: self._next_end(known, limit))
        is_first = start == self._initial
        if end == known and not is_first:
            return start
        return to_json(end) | ({START: start} if is_first else {})

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end offsets of the last lookup, for StreamingQueryProgress."""
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of a new or repeated batch."""
        if start == end:
            return []
        began = start_of(end)
        known = from_json(start) if began is None else began
        ends = from_json(end)
        self._report(losses(known, ends))
        known |= self._ask(lambda: self._added(known, ends))
        options = self._options
        return list(divided(ranges_of(known, ends), minimum=options.min_partitions, max_records=options.max_records))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Record batches with the schema's columns."""
        return read_range(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that all records before `end` are handled; commit this to the group of commitGroupId, if it is set."""
        run(self._commit(from_json(end)))

    def stop(self) -> None:
        """Close the connections."""
        lookup, self._lookup = self._lookup, None
        if lookup is not None:
            run(lookup.admin.close())

    # ---- implementation

    def _ask(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask the cluster. The first request fails at once (wrong address); later requests wait for the cluster."""
        if self._lookup is None:
            return run(question())
        return run(until_reached(question, self._options.client))

    async def _connected(self) -> OffsetLookup:
        if self._lookup is None:
            lookup = OffsetLookup(self._options)
            await lookup.__aenter__()
            self._lookup = lookup
        return self._lookup

    async def _begin(self) -> Offsets:
        lookup = await self._connected()
        partitions = await lookup.partitions(must_exist=True)
        if self._options.starting.kind == "latest" and self._target is not None:
            # Records after the target are left for the next query.
            rest = await lookup.latest([partition for partition in partitions if partition not in self._target])
            return {partition: self._target.get(partition, rest.get(partition, 0)) for partition in partitions}
        return await lookup.resolve(self._options.starting, partitions)

    async def _ends(self, known: Offsets) -> Offsets:
        self._latest = await (await self._connected()).latest_after(known)
        return self._latest

    async def _next_end(self, known: Offsets, limit: ReadLimit) -> Offsets:
        # Spark reports a batch as done when it makes the next one, so never for the last batch of a query.
        if known != (None if self._initial is None else from_json(self._initial)):
            await self._commit(known)
        latest = await self._ends(known) if self._target is None else self._target
        self._report(losses(known, latest))
        if isinstance(limit, ReadAllAvailable):
            return latest
        options = self._options
        start = known | await self._added(known, latest)
        if options.min_offsets is not None and self._target is None:
            now_ms = self._now_ms()
            is_due = now_ms - self._last_batch_ms >= options.max_trigger_delay_ms
            if not is_due and count(start, latest) < options.min_offsets:
                return known
            self._last_batch_ms = now_ms
        return latest if options.max_offsets is None else limited(start, latest, options.max_offsets)

    async def _added(self, known: Offsets, ends: Mapping[Any, int]) -> Offsets:
        """The start offsets of new partitions: their earliest offsets."""
        new = [partition for partition in ends if partition not in known]
        if not new:
            return {}
        found = await (await self._connected()).earliest(new)
        late = {partition: offset for partition, offset in found.items() if offset > 0}
        self._report(
            [f"partition {name} is new and begins at offset {offset}, not at 0" for name, offset in late.items()]
        )
        return found

    def _report(self, lost: list[str]) -> None:
        """Raise DataLossError, or warn."""
        if not lost:
            return
        text = f"{'; '.join(lost)}. {LOSS_ADVICE}"
        if self._options.fail_on_data_loss:
            raise DataLossError(text)
        warnings.warn(text, stacklevel=2)

    async def _commit(self, done: Offsets) -> None:
        if self._progress.is_new(done):
            await self._progress.commit((await self._connected()).admin, done)


def _monotonic_ms() -> float:
    return time.monotonic() * 1000
