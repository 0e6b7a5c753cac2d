"""The log: segments, indexes, producer state, recovery, checkpoints."""
