"""Log compaction: which log is next, the process that compacts, and what it keeps."""
