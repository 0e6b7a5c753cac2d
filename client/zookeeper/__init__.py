"""A consumer whose group is in ZooKeeper, as in Kafka before 0.9."""
