"""The registry on a real ZooKeeper, with kazoo."""
