"""The Kafka wire protocol: messages, their encoding, and record batches. Imports no other package of Ottla."""
