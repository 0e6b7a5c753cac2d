"""One log: its segments, appends, reads, recovery, truncation and flushing."""
