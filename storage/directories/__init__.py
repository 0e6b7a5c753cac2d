"""The log directories of a broker: locks, checkpoints, loading, moving logs between directories, removal."""
