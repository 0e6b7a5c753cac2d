"""A FastAPI service: it publishes new orders, and shows those that were paid."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel


class Order(BaseModel):
    """An order of a customer."""

    id: int
    item: str


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect to the servers of KAFKA_BOOTSTRAP_SERVERS, and follow the payments."""
    servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
    app.state.orders = os.environ.get("ORDERS_TOPIC", "orders")
    app.state.states = {}
    payments = os.environ.get("PAYMENTS_TOPIC", "payments")
    async with (
        AIOKafkaProducer(bootstrap_servers=servers) as app.state.producer,
        AIOKafkaConsumer(payments, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
    ):
        following = asyncio.create_task(_follow_payments(consumer, app.state.states))
        yield
        following.cancel()
        await asyncio.wait([following])


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def create(order: Order, request: Request) -> None:
    """Publish an order. It is accepted when all in-sync replicas have it."""
    state = request.app.state
    await state.producer.send_and_wait(state.orders, order.model_dump_json().encode(), key=b"%d" % order.id)
    state.states[order.id] = "ordered"


@app.get("/orders/{order_id}")
async def show(order_id: int, request: Request) -> dict[str, str]:
    """Return the state of an order."""
    if order_id not in request.app.state.states:
        raise HTTPException(404)
    return {"state": request.app.state.states[order_id]}


async def _follow_payments(consumer: AIOKafkaConsumer, states: dict[int, str]) -> None:
    async for record in consumer:
        states[json.loads(record.value)["order"]] = "paid"
