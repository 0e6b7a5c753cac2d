"""The pages of the project."""

import json

from confluent_kafka import Producer
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from shop.models import Order


@require_POST
def create_order(request: HttpRequest) -> JsonResponse:
    """Store an order, and publish it. If it cannot be published, it is not stored."""
    with transaction.atomic():
        order = Order.objects.create(item=json.loads(request.body)["item"])
        publish({"id": order.id, "item": order.item})
    return JsonResponse({"id": order.id}, status=201)


def publish(event: dict[str, object]) -> None:
    """Send an event, and wait until the broker has it. Raises RuntimeError after ten seconds."""
    producer = Producer({"bootstrap.servers": settings.KAFKA_BOOTSTRAP_SERVERS, "message.timeout.ms": 10_000})
    failed: list[object] = []
    producer.produce(
        settings.ORDERS_TOPIC, json.dumps(event), on_delivery=lambda error, _: failed.append(error) if error else None
    )
    producer.flush()
    if failed:
        raise RuntimeError(f"the order was not published: {failed[0]}")
