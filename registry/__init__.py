"""The ZooKeeper tree: one class for each kind of znode, and the stores that hold the tree."""
