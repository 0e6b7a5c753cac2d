"""The Kafka wire protocol: messages, their codec, record batches. Imports nothing of ours."""
