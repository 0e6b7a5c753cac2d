"""The asyncio client: connection, metadata, producer, reader, consumer, admin."""
