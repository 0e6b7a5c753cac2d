"""Schemas of keys and values: Avro, Protobuf and JSON Schema, and the client of a schema registry."""
