"""The data source with the name `ottla`."""

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from spark_connector.batch_reader import OttlaBatchReader
from spark_connector.schema import source_schema
from spark_connector.source_options import refuse_unknown_names, source_options
from spark_connector.stream_reader import OttlaStreamReader


class OttlaDataSource(DataSource):
    """Kafka topics as tables and streams, with the options of Spark's own Kafka source and sink."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "ottla"

    def schema(self) -> StructType:
        """The columns of the source. Raises InvalidOptionError for an unknown option."""
        refuse_unknown_names(self.options)
        return source_schema(self.options)

    def reader(self, schema: StructType) -> OttlaBatchReader:
        """The batch source. Raises InvalidOptionError."""
        return OttlaBatchReader(source_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> OttlaStreamReader:  # noqa: N802
        """The streaming source. Raises InvalidOptionError."""
        return OttlaStreamReader(source_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a batch job. Raises InvalidOptionError, ColumnError."""
        from spark_connector.sink import new_writer  # pyarrow takes 0.1 s and 40 MB

        return new_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        """The writer of a stream. Raises InvalidOptionError, ColumnError."""
        from spark_connector.sink import new_stream_writer  # pyarrow takes 0.1 s and 40 MB

        return new_stream_writer(self.options, schema)
