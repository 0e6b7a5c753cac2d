"""The classes of Kafka's znodes: one class per path, with its fields and its JSON."""
