"""What Spark programs import: `from ottla.spark import LagListener`. `format("ottla")` needs no import."""

from spark_connector.lag_listener import LagListener

__all__ = ["LagListener"]
