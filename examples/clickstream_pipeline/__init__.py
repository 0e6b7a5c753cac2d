"""Clicks of a shop, from a Kafka topic through Spark into Parquet files and alerts. See README.md."""
