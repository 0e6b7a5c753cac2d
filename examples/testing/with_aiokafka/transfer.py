"""A service with aiokafka: it copies payments exactly once, in transactions."""

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


async def run(bootstrap_servers: str, source: str, target: str) -> None:
    """Copy every record of `source` to `target`, until the task is cancelled."""
    group_id = f"{source}-transfer"
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=group_id) as producer,
        AIOKafkaConsumer(
            source,
            bootstrap_servers=bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer,
    ):
        async for record in consumer:
            async with producer.transaction():
                await producer.send(target, record.value, key=record.key)
                partition = TopicPartition(record.topic, record.partition)
                await producer.send_offsets_to_transaction({partition: record.offset + 1}, group_id)
