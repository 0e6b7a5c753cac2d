"""The embedded registry: ZooKeeper's tree and semantics in this process, kept in one SQLite file."""
