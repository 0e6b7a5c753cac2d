"""Offsets of groups: files of them, planned changes, and offsets that consumers keep in ZooKeeper."""
