"""ZooKeeper servers from pyspark's jars, and znodes decoded for display."""
