"""The producer: records to batches, batches to leaders, transactions."""
