"""The producer state of a log: sequence numbers, open transactions, snapshots, aborted transactions."""
