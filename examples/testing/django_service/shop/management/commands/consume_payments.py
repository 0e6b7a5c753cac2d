"""`manage.py consume_payments`: mark the orders as paid whose payments arrive."""

import json
from typing import Any

from confluent_kafka import Consumer
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from shop.models import Order


class Command(BaseCommand):
    """Consume payments; with --count, only this many."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of the command."""
        parser.add_argument("--count", type=int)

    def handle(self, *args: Any, count: int | None = None, **options: Any) -> None:
        """Run the command."""
        consumer = Consumer(
            {
                "bootstrap.servers": settings.KAFKA_BOOTSTRAP_SERVERS,
                "group.id": f"{settings.PAYMENTS_TOPIC}-shop",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([settings.PAYMENTS_TOPIC])
        try:
            while count is None or count > 0:
                message = consumer.poll(1)
                if message is None or message.error():
                    continue
                Order.objects.filter(id=json.loads(message.value())["order"]).update(is_paid=True)
                consumer.commit(message, asynchronous=False)
                count = None if count is None else count - 1
        finally:
            consumer.close()
