"""Log compaction: the choice of the next log, the worker process, and the rules for what is kept."""
