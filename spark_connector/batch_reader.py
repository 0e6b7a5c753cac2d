"""The batch source: plans offset ranges once on the driver, and reads them on executors."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from spark_connector.errors import LOSS_ADVICE, DataLossError
from spark_connector.event_loop import run
from spark_connector.offset_lookup import OffsetLookup
from spark_connector.pushed_filters import PushedFilters
from spark_connector.range_planner import OffsetRange, divided, losses, ranges_of
from spark_connector.range_reader import RangeReader
from spark_connector.source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa


class OttlaBatchReader(DataSourceReader):
    """Reads topics between a query's start and end. It is pickled for the executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._filters = PushedFilters()

    @property
    def pushFilters(self) -> Callable[[list[Filter]], list[Filter]]:  # noqa: N802
        """The method for a query's filters; Spark calls it if spark.sql.python.filterPushdown.enabled is true."""
        return _OptionalPushdown(self)

    def push(self, filters: list[Filter]) -> list[Filter]:
        """Take over supported filters. Return those that Spark must evaluate."""
        return self._filters.push(filters)

    def partitions(self) -> list[InputPartition]:
        """One or more ranges for each partition that has records to read."""
        return list(run(self._plan()))

    async def _plan(self) -> list[OffsetRange]:
        options = self._options
        assert options.ending is not None
        async with OffsetLookup(options) as lookup:
            partitions = await lookup.partitions(must_exist=True)
            start = await lookup.resolve(options.starting, partitions)
            end = await lookup.resolve(options.ending, partitions, is_end=True)
            lost = losses(start, end) if options.fail_on_data_loss else []
            if lost:
                raise DataLossError(f"{'; '.join(lost)}. {LOSS_ADVICE}")
            start, end = await self._filters.narrowed(lookup, start, end)
        return divided(ranges_of(start, end), minimum=options.min_partitions, max_records=options.max_records)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Record batches with the schema's columns."""
        return read_range(partition, self._options, self._schema)


class _OptionalPushdown:
    """Calls a reader's `push`, and passes for the base class's method when Spark checks whether it is overridden.

    Spark refuses a reader with filter pushdown while the setting is off (the default), so that no filter is ignored.
    Here none is: without the call, Spark evaluates all filters itself.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: OttlaBatchReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        return self._reader.push(filters)


def read_range(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """A range's records as Arrow record batches; none for Spark's placeholder when there are no partitions."""
    from spark_connector.record_batches import RecordBatches  # pyarrow takes 0.1 s and 40 MB

    if isinstance(partition, OffsetRange):
        batches = RecordBatches(schema, partition.topic, partition.partition, partition.end)
        yield from batches.of(RangeReader(partition, options).fetched())
