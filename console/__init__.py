"""The console: a client application over HTTP for any Kafka cluster. So far, its REST API."""
