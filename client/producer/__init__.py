"""The producer: collects records in batches, sends batches to leaders, handles transactions."""
