"""SCRAM credentials as recorded from Apache Kafka 3.9: answers, znodes and notifications, on both registries."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from broker.authentication.scram_changes import STEP, alter_credentials
from broker.broker import Broker
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.json import to_json
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from registry.interface import Registry
from security.sasl.scram import SCRAM_SHA_256
from support.broker import running_broker
from support.polling import until
from support.reference import REFERENCE
from support.sasl import listener_settings, sasl_listeners
from support.wire import WireClient, decode_answer, wire_client
from support.zookeeper import new_chroot, shared_zookeeper

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECURITY = REFERENCE / "security"
API = [json.loads(line) for line in (SECURITY / "scram-api.jsonl").read_text().splitlines()]
STEPS = {step["step"]: step for step in map(json.loads, (SECURITY / "scram-znodes.jsonl").read_text().splitlines())}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["embedded", "zookeeper"])
async def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    """A broker with SCRAM on either registry."""
    data: Path = tmp_path_factory.mktemp(request.param) / "data"
    values = sasl_listeners("SASL") | listener_settings("SASL", "SCRAM-SHA-256")
    if request.param == "zookeeper":
        values["zookeeper.connect"] = shared_zookeeper().connect + new_chroot()
    async with running_broker(data, **values) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(broker: Broker) -> AsyncIterator[WireClient]:
    async with wire_client(f"127.0.0.1:{broker.acceptors['PLAINTEXT'].port}") as opened:
        yield opened


def registry_of(broker: Broker) -> Registry:
    assert broker.services is not None
    return broker.services.registry_access.registry


def plain(answer: Any) -> Any:
    """The JSON of an answer, without the order of users and the text of a bug."""
    found = to_json(answer, 0)
    assert isinstance(found, dict)
    for result in found["results"]:
        if result["errorCode"] == ErrorCode.UNKNOWN_SERVER_ERROR:
            del result["errorMessage"]
    found["results"].sort(key=lambda result: str(result["user"]))
    return found


async def test_the_recorded_answers_and_znodes(broker: Broker, client: WireClient) -> None:
    registry = registry_of(broker)
    for case in API:
        if case["case"] == "describe: user with a quota only":
            await add_recorded_quotas(broker)
        data = bytes.fromhex(case["request"])
        client.send_raw(len(data).to_bytes(4, "big") + data)
        answer = await client.receive_raw()
        expected = bytes.fromhex(case["response"])
        key = ApiKey(case["api_key"])
        assert plain(decode_answer(answer, key, 0)[1]) == plain(decode_answer(expected, key, 0)[1]), case["case"]
        if len(case["response_json"]["results"]) == 1 and case["response_json"]["results"][0]["errorCode"] != -1:
            assert answer == expected, case["case"]
        step = STEPS.get(case["case"])
        if step is not None and not step["step"].startswith("kafka-configs"):
            await check_users(registry, step)
            recorded = [one["path"] for one in step["changed"] if one["path"].startswith("/config/changes/")]
            assert len(await registry.children("/config/changes")) == int(recorded[-1][-10:]) + 1, case["case"]


async def check_users(registry: Registry, step: dict[str, Any]) -> None:
    for znode in step["changed"]:
        if znode["path"].startswith("/config/users/"):
            data, stat = await registry.get(znode["path"])
            assert data is not None
            assert json.loads(data) == znode["value"]
            assert stat.version == znode["version"]
    for path in step["removed"]:
        assert path.rpartition("/")[2] not in await registry.children("/config/users")


async def add_recorded_quotas(broker: Broker) -> None:
    """Quotas of two users, as in the recording."""
    assert broker.services is not None
    entities = broker.services.configs.entities
    for user in ("quotaonly", "v"):
        await entities.alter(f"users/{user}", lambda config: {**config, "producer_byte_rate": "1"})


async def test_other_tasks_run_while_many_entries_are_checked(broker: Broker) -> None:
    """Counted are the turns of another task, not time. No entry is written: each has too few iterations."""
    assert broker.services is not None
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    entries = [
        ScramCredentialUpsertion(name=f"u{number}", mechanism=1, iterations=1, salt=b"s", salted_password=b"p")
        for number in range(20 * STEP)
    ]
    counting = asyncio.create_task(count())
    results = await alter_credentials(broker.services.configs.entities, [], entries)
    counting.cancel()
    assert {result.code for result in results.values()} == {ErrorCode.UNACCEPTABLE_CREDENTIAL}
    assert turns >= 19


async def test_a_change_takes_effect_for_the_next_login(broker: Broker, client: WireClient) -> None:
    first = base64.b64decode(b"biwsbj1sYXRlcixyPWFiYw==")  # n,,n=later,r=abc

    async def may_begin() -> bool:
        async with wire_client(f"127.0.0.1:{broker.acceptors['SASL'].port}") as other:
            await other.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            answer = await other.call(SaslAuthenticateRequest(auth_bytes=first), 2)
            return bool(answer.error_code == 0)

    assert not await may_begin()
    upsertion = ScramCredentialUpsertion(
        name="later", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"x" * 32
    )
    await client.call(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))
    assert await may_begin(), "the broker that wrote it knows it at once"
    deletion = ScramCredentialDeletion(name="later", mechanism=1)
    await client.call(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))
    assert not await may_begin()


async def test_a_credential_that_another_program_writes_is_seen(broker: Broker) -> None:
    """kafka-configs --zookeeper writes the znode and a notification."""
    assert broker.services is not None
    registry, credentials = registry_of(broker), broker.services.scram_credentials
    text = STEPS["upsert: one user, SCRAM-SHA-256"]["changed"][0]["value"]
    await registry.create("/config/users/tool", json.dumps(text).encode())
    await registry.create("/config/changes/config_change_", b'{"version":2,"entity_path":"users/tool"}', sequence=True)
    await until(lambda: credentials.of(SCRAM_SHA_256)("tool"), "the credential is known")


async def test_a_credential_that_cannot_be_read_is_ignored_without_its_text(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    assert broker.services is not None
    entities = broker.services.configs.entities
    await entities.alter("users/broken", lambda config: {"SCRAM-SHA-256": "planted-secret"})
    assert "'broken' cannot be read" in caplog.text
    assert "planted-secret" not in caplog.text
