"""A source and a sink for Kafka in PySpark, for batch queries and Structured Streaming.

`pyspark_ottla` registers them, so that `format("ottla")` works wherever this package is installed.
"""
