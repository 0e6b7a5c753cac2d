"""Real ZooKeeper servers from pyspark's jars, and znodes for people and scripts."""
