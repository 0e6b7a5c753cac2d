"""What Spark finds under the name `ottla`."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_connector.schema import source_schema


class OttlaDataSource(DataSource):
    """Kafka topics as tables and streams, with the options of Spark's own Kafka source and sink."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(…)`."""
        return "ottla"

    def schema(self) -> StructType:
        """The columns of the source."""
        return source_schema(self.options)
