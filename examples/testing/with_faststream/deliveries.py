"""A FastStream application: it plans a delivery for each paid order."""

from faststream import FastStream
from faststream.kafka import KafkaBroker
from pydantic import BaseModel


class Order(BaseModel):
    """A paid order."""

    id: int
    city: str


class Delivery(BaseModel):
    """A planned delivery."""

    order: int
    route: str


def make_app(bootstrap_servers: str, orders: str, deliveries: str) -> FastStream:
    """Return the application; the addresses and topics come from the environment in production."""
    broker = KafkaBroker(bootstrap_servers)

    @broker.subscriber(orders, group_id=f"{orders}-planning", auto_offset_reset="earliest")
    @broker.publisher(deliveries)
    async def plan(order: Order) -> Delivery:
        return Delivery(order=order.id, route=f"Prague - {order.city}")

    return FastStream(broker)
