"""The embedded registry for clients in other processes, over ZooKeeper's client protocol."""
