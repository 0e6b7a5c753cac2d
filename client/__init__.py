"""The asyncio client: connection, metadata, producer, reader, admin."""
