"""Spark reads from Kafka and writes to it through Python: a source and a sink for batch and Structured Streaming.

`pyspark_ottla` registers them, so that `format("ottla")` is known wherever this package is installed.
"""
