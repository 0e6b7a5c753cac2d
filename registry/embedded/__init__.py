"""The embedded registry: ZooKeeper's tree and semantics in this process, stored in one SQLite file."""
