"""A service with confluent-kafka: it writes an invoice for each order."""

import json
from threading import Event

from confluent_kafka import Consumer, KafkaException, Producer


def run(bootstrap_servers: str, orders: str, invoices: str, group_id: str, stopped: Event) -> None:
    """Read the topic `orders` and write the topic `invoices`, until `stopped` is set."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([orders])
    try:
        while not stopped.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            producer.produce(invoices, json.dumps(invoice_for(json.loads(message.value()))), message.key())
            producer.flush()
            consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()


def invoice_for(order: dict[str, int]) -> dict[str, int]:
    """Return the invoice for an order."""
    return {"order": order["id"], "total": order["price"] * order["quantity"]}
