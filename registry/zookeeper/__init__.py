"""The registry on a real ZooKeeper, over kazoo."""
