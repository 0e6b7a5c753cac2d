"""The log directories of a broker: locks, checkpoints, loading, moves between them, removal."""
