"""The classes of Kafka's znodes: one class a path, with its fields and its JSON."""
