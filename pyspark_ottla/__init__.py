"""Makes `format("ottla")` known to Spark, which imports modules of such names when a source is first asked for."""

from spark_connector.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
