"""The ZooKeeper tree: one class a znode, and the stores that hold it."""
