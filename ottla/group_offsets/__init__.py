"""Offsets of groups: offset files, planned changes, and offsets that consumers store in ZooKeeper."""
