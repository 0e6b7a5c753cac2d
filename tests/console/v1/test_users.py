"""SCRAM users for the pages: passwords only come in."""

import logging

import pytest

from client.admin.admin import Admin
from support.polling import until

PASSWORD = "correct horse battery"


async def test_a_user_is_created_changed_and_deleted(broker, rest, caplog):
    caplog.set_level(logging.DEBUG)
    answers = [await rest.ask("POST", "/api/v1/users", {"name": "alice/1", "password": PASSWORD})]
    assert answers[0].status == 201
    both = [{"mechanism": f"SCRAM-SHA-{one}", "iterations": 4096} for one in (256, 512)]

    async def is_listed():
        return (await rest.get("/api/v1/users"))["users"] == [{"name": "alice/1", "credentials": both}]

    await until(is_listed, "the user is listed")
    answers.append(await rest.ask("POST", "/api/v1/users", {"name": "alice/1", "password": PASSWORD}))
    assert answers[1].status == 409
    change = {"password": PASSWORD, "mechanisms": ["SCRAM-SHA-512"], "iterations": 5000}
    answers.append(await rest.ask("PUT", "/api/v1/users/alice%2F1", change))
    assert answers[2].status == 200
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:

        async def is_changed():
            return (await admin.describe_scram_users(["alice/1"]))["alice/1"] == {
                "SCRAM-SHA-256": 4096,
                "SCRAM-SHA-512": 5000,
            }

        await until(is_changed, "the password is changed")
    assert (await rest.ask("DELETE", "/api/v1/users/alice%2F1")).status == 204

    async def is_gone():
        return (await rest.get("/api/v1/users"))["users"] == []

    await until(is_gone, "the user is gone")
    assert PASSWORD not in str(answers) + caplog.text


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "users", {"name": "bob", "password": ""}, 400),
        ("POST", "users", {"name": "", "password": PASSWORD}, 400),
        ("POST", "users", {"name": "bob", "password": PASSWORD, "iterations": 1}, 400),
        ("POST", "users", {"name": "bob", "password": PASSWORD, "mechanisms": ["PLAIN"]}, 400),
        ("PUT", "users/nobody", {"password": PASSWORD}, 404),
        ("DELETE", "users/nobody", None, 404),
    ],
)
async def test_errors(rest, method, path, body, status):
    answer = await rest.ask(method, f"/api/v1/{path}", body)
    assert answer.status == status, answer
    assert PASSWORD not in str(answer)
