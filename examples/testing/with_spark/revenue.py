"""A Spark job: it writes the revenue of each order to a topic."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

ORDER = "item STRING, price INT, quantity INT"


def run(spark: SparkSession, bootstrap_servers: str, orders: str, revenue: str, checkpoint: Path) -> None:
    """Process the orders since the last run; `checkpoint` is the folder of the offsets."""
    read = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", orders)
        .option("startingOffsets", "earliest")
        .load()
    )
    order = read.select("key", f.from_json(f.col("value").cast("string"), ORDER).alias("order"))
    totals = order.select("key", (f.col("order.price") * f.col("order.quantity")).cast("string").alias("value"))
    query = (
        totals.writeStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", revenue)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
