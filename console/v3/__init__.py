"""The REST API `/v3`, as Confluent's REST Proxy defines it: one table of operations, typed models, handlers."""
