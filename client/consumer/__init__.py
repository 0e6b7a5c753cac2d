"""The consumer: reading partitions, and being a member of a group."""
