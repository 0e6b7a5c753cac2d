"""A Faust application: it writes an invoice for each order."""

from pathlib import Path

import faust


class Order(faust.Record, serializer="json"):
    """An order."""

    id: int
    price: int
    quantity: int


def make_app(bootstrap_servers: str, orders: str, invoices: str, data: Path) -> faust.App:
    """Return the application. `data` is the folder of its tables."""
    app = faust.App(
        f"{orders}-billing",
        broker=f"kafka://{bootstrap_servers}",
        store="memory://",
        datadir=data,
        topic_partitions=1,
        web_enabled=False,
    )
    target = app.topic(invoices, value_serializer="json")

    @app.agent(app.topic(orders, value_type=Order))
    async def bill(stream: faust.Stream) -> None:
        async for order in stream:
            await target.send(value={"order": order.id, "total": order.price * order.quantity})

    return app
