"""Quotas for the pages."""

import pytest

from support.polling import until

ALICE = {"user": "alice", "client_id": None, "ip": None, "is_default": []}
EVERYBODY = {"user": None, "client_id": None, "ip": None, "is_default": ["user"]}


async def alter(rest, entity, quotas):
    answer = await rest.ask("POST", "/api/v1/quotas:alter", entity | {"quotas": quotas})
    assert answer.status == 204, answer


async def test_quotas_are_set_listed_and_removed(rest):
    await alter(rest, ALICE, {"producer_byte_rate": 1024, "request_percentage": 50})
    await alter(rest, EVERYBODY, {"consumer_byte_rate": 2048})
    alice = ALICE | {"quotas": {"producer_byte_rate": 1024.0, "request_percentage": 50.0}}
    everybody = EVERYBODY | {"quotas": {"consumer_byte_rate": 2048.0}}

    async def are_listed():
        return (await rest.get("/api/v1/quotas"))["entities"] == [everybody, alice]

    await until(are_listed, "both entities are listed")
    await alter(rest, ALICE, {"producer_byte_rate": None, "request_percentage": None})

    async def is_one():
        return (await rest.get("/api/v1/quotas"))["entities"] == [everybody]

    await until(is_one, "the quotas of alice are removed")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"quotas": {"producer_byte_rate": 1}}, "name a user"),
        ({"ip": "127.0.0.1", "user": "alice", "quotas": {"connection_creation_rate": 1}}, "name a user"),
        ({"user": "alice", "is_default": ["user"], "quotas": {"producer_byte_rate": 1}}, "not both"),
        ({"is_default": ["group"], "quotas": {"producer_byte_rate": 1}}, "not group"),
        ({"user": "alice", "quotas": {}}, "quotas"),
        ({"user": "alice", "quotas": {"producer_byte_rate": -1}}, "quotas"),
        ({"user": "alice", "quotas": {"unknown_rate": 1}}, "unknown_rate"),
    ],
)
async def test_errors(rest, body, text):
    answer = await rest.ask("POST", "/api/v1/quotas:alter", body)
    assert answer.status == 400, answer
    assert text in answer.body["message"]
