"""A batch job with kafka-python: it counts the logins of each user since its last run."""

from collections import Counter

from kafka import KafkaConsumer, TopicPartition


def count_logins(bootstrap_servers: str, topic: str) -> Counter[str]:
    """Return the number of records per key from the last commit to the end of the topic, and commit the end.

    The job is alone, so it reads all partitions itself: it does not join the group, and only commits its offsets.
    """
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=f"{topic}-audit",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    logins: Counter[str] = Counter()
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for records in consumer.poll(timeout_ms=1_000).values():
                logins.update(record.key.decode() for record in records)
        consumer.commit()
        return logins
    finally:
        consumer.close()
