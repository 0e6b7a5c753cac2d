"""The consumer whose group lives in ZooKeeper, as Kafka's before 0.9."""
