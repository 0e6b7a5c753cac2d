"""Keys and values with schemas: Avro, Protobuf and JSON Schema, from files or from a schema registry."""
