"""Delegation tokens as recorded from Apache Kafka 3.9, and logins with them.

Not here: tokens for other owners, and what super users see, which an authorizer decides.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.authentication.token_store import TokenStore
from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.wire.backoff import Backoff
from protocol.api_keys import ApiKey, request_class
from protocol.error_codes import ErrorCode
from protocol.json import from_json, to_json
from protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.metadata import MetadataRequest
from registry.embedded.store import EmbeddedStore
from registry.znodes.delegation_tokens import DelegationTokenChangeZnode, DelegationTokenZnode
from registry.znodes.tree import ensure_persistent_paths
from security.jaas import PLAIN_MODULE
from security.principal import Principal
from security.sasl.scram import ScramCredential
from support.authorization import allow, put_acls
from support.broker import settings
from support.lossy_registry import LossyRegistry
from support.polling import until
from support.reference import REFERENCE
from support.sasl import listener_settings, plain_login, sasl_listeners, scram_login
from support.wire import ConnectionClosedError, WireClient, wire_client
from support.zookeeper import new_chroot, shared_zookeeper

SECURITY = REFERENCE / "security"
DAY_MS = 86_400_000
USERS = ("alice", "bob", "carol", "admin", "u49")
JAAS = f"{PLAIN_MODULE} required " + " ".join(f'user_{user}="{user}-secret"' for user in USERS) + ";"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_795_361_895_000

    def __call__(self) -> int:
        return self.now_ms


@contextlib.asynccontextmanager
async def token_broker(
    data: Path, clock: Clock, store: EmbeddedStore | None = None, **overrides: str
) -> AsyncIterator[Broker]:
    values = {
        **settings(data),
        **sasl_listeners("SASL"),
        **listener_settings("SASL", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "listener.name.sasl.plain.sasl.jaas.config": JAAS,
        "delegation.token.secret.key": "token-secret",
        "connection.failed.authentication.delay.ms": "0",
    } | {name.replace("_", "."): value for name, value in overrides.items()}
    async with Broker(BrokerConfig.load(None, values), now_ms=clock, store=store) as broker:
        yield broker


def address(broker: Broker, listener: str = "SASL") -> str:
    return f"127.0.0.1:{broker.acceptors[listener].port}"


class Sessions:
    """A connection for each user."""

    def __init__(self, broker: Broker, stack: contextlib.AsyncExitStack) -> None:
        self._broker = broker
        self._stack = stack
        self._clients: dict[str, WireClient] = {}

    async def of(self, user: str) -> WireClient:
        if user not in self._clients:
            listener = "PLAINTEXT" if user == "ANONYMOUS" else "SASL"
            client = await self._stack.enter_async_context(wire_client(address(self._broker, listener)))
            if user != "ANONYMOUS":
                assert (await plain_login(client, user, f"{user}-secret")).error_code == 0
            self._clients[user] = client
        return self._clients[user]


KEYS = {
    "CreateDelegationToken": ApiKey.CREATE_DELEGATION_TOKEN,
    "RenewDelegationToken": ApiKey.RENEW_DELEGATION_TOKEN,
    "ExpireDelegationToken": ApiKey.EXPIRE_DELEGATION_TOKEN,
    "DescribeDelegationToken": ApiKey.DESCRIBE_DELEGATION_TOKEN,
}


def recorded(*, disabled: bool) -> list[dict[str, Any]]:
    cases = [json.loads(line) for line in (SECURITY / "delegation-tokens.jsonl").read_text().splitlines()]
    return [case for case in cases if case["case"].startswith("delegation.token.secret.key not set") == disabled]


def time_of(case: dict[str, Any]) -> int | None:
    """When a request was made, as far as its answer tells."""
    sent, answer = case["request_json"], case["response_json"]
    if answer["errorCode"] or "tokens" in answer:
        return None
    if "issueTimestampMs" in answer:
        return int(answer["issueTimestampMs"])
    period = sent.get("renewPeriodMs", sent.get("expiryTimePeriodMs"))
    if period > 10 * DAY_MS:
        return None
    default = DAY_MS if "renewPeriodMs" in sent else 0
    return int(answer["expiryTimestampMs"] - (default if period < 0 else period))


@pytest.fixture(params=["embedded", "zookeeper"])
def registry_settings(request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings of a registry: that of the broker, or a real ZooKeeper."""
    if request.param == "embedded":
        return {}
    return {"zookeeper_connect": f"{shared_zookeeper().connect}{new_chroot()}"}


async def test_the_recorded_requests(tmp_path: Path, registry_settings: dict[str, str]) -> None:
    """Our ids and secrets stand for the recorded ones."""
    clock = Clock()
    ours: dict[str, str] = {}  # our secrets by the recorded ones
    async with (
        token_broker(tmp_path / "data", clock, **registry_settings) as broker,
        contextlib.AsyncExitStack() as stack,
    ):
        sessions = Sessions(broker, stack)
        assert broker.services is not None
        tokens = broker.services.tokens
        for case in recorded(disabled=False):
            clock.now_ms = time_of(case) or clock.now_ms
            user = case["principal"].removeprefix("User:")
            sent, expected = case["request_json"], case["response_json"]
            is_described = "tokens" in expected
            if sent.get("ownerPrincipalName") not in (None, "", user) and not expected["errorCode"]:
                owner = Principal(sent["ownerPrincipalType"], sent["ownerPrincipalName"])
                token = await tokens.create(Principal("User", user), owner, [], -1)
                ours[expected["hmac"]] = base64.b64encode(tokens.hmac_of(token)).decode()
                continue
            if is_described and user == "admin":
                continue
            if "just expired" in case["case"]:
                clock.now_ms += 1
            elif is_described or "removed by the check" in case["case"]:
                await tokens.remove_expired()
            sent = {name: ours.get(value, value) if name == "hmac" else value for name, value in sent.items()}
            client = await sessions.of(user)
            request = from_json(request_class(KEYS[case["api_name"]]), sent, case["api_version"])
            answer = to_json(await client.call(request, case["api_version"]), case["api_version"])
            assert isinstance(answer, dict)
            if is_described:
                assert describable(answer) == describable(expected, ours), case
                continue
            if expected.get("hmac"):
                ours[expected["hmac"]] = str(answer["hmac"])
            assert {name: value for name, value in answer.items() if name not in ("tokenId", "hmac")} == {
                name: value for name, value in expected.items() if name not in ("tokenId", "hmac")
            }, case


def describable(answer: dict[str, Any], ours: dict[str, str] | None = None) -> Any:
    """What is compared of an answer: the tokens by their secrets. Times of the recorded end are those of the run."""
    tokens = {}
    for token in answer["tokens"]:
        secret = token["hmac"] if ours is None else ours[token["hmac"]]
        kept = {name: value for name, value in token.items() if name not in ("tokenId", "hmac", "throttleTimeMs")}
        if kept.get("principalName") == "bob":  # made by the test
            for name in ("issueTimestamp", "expiryTimestamp", "maxTimestamp"):
                del kept[name]
        tokens[secret] = kept
    return answer["errorCode"], tokens


@pytest.mark.parametrize("case", recorded(disabled=True), ids=lambda case: f"{case['api_name']} {case['api_version']}")
async def test_without_a_key_there_are_no_tokens(disabled: Sessions, case: dict[str, Any]) -> None:
    client = await disabled.of(case["principal"].removeprefix("User:"))
    request = from_json(request_class(KEYS[case["api_name"]]), case["request_json"], case["api_version"])
    answer = await client.call(request, case["api_version"])
    assert to_json(answer, case["api_version"]) == case["response_json"]


@pytest.fixture
async def disabled(tmp_path: Path) -> AsyncIterator[Sessions]:
    overrides = {"delegation_token_secret_key": ""}
    async with token_broker(tmp_path / "data", Clock(), **overrides) as broker, contextlib.AsyncExitStack() as stack:
        yield Sessions(broker, stack)


async def new_token(broker: Broker, **fields: Any) -> Any:
    async with wire_client(address(broker)) as client:
        await plain_login(client, "alice", "alice-secret")
        return await client.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1, **fields))


async def token_login(client: WireClient, token: Any, mechanism: str = "SCRAM-SHA-256") -> Any:
    password = base64.b64encode(bytes(token.hmac)).decode()
    return await scram_login(client, token.token_id, password, mechanism, {"tokenauth": "true"})


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_login_with_a_token(tmp_path: Path, mechanism: str) -> None:
    clock = Clock()
    async with token_broker(tmp_path / "data", clock) as broker, wire_client(address(broker)) as client:
        token = await new_token(broker)
        clock.now_ms += 1000
        answer = await token_login(client, token, mechanism)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, DAY_MS - 1000)
        (connection,) = [one for one in broker.acceptors["SASL"].connections if one.is_token_login]
        assert str(connection.principal) == "User:alice"
        refused = await client.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1))
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        described = await client.call(DescribeDelegationTokenRequest(owners=None))
        assert described.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_the_keys_of_a_token_are_not_computed_in_the_event_loop(
    tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    of_password = ScramCredential.of_password

    def noted(*args: Any) -> ScramCredential:
        threads.append(threading.current_thread())
        return of_password(*args)

    async with token_broker(tmp_path / "data", Clock()) as broker:
        token = await new_token(broker)
        monkeypatch.setattr(ScramCredential, "of_password", noted)
        for _ in range(2):
            async with wire_client(address(broker)) as client:
                assert (await token_login(client, token, mechanism)).error_code == 0
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_logins_that_fail(tmp_path: Path) -> None:
    clock = Clock()
    async with token_broker(tmp_path / "data", clock) as broker:
        token = await new_token(broker)
        password = base64.b64encode(bytes(token.hmac)).decode()
        for user, secret, extensions in [
            (token.token_id, password, {}),
            (token.token_id, password, {"tokenauth": "false"}),
            (token.token_id, "wrong", {"tokenauth": "true"}),
            ("nobody", password, {"tokenauth": "true"}),
        ]:
            async with wire_client(address(broker)) as client:
                answer = await scram_login(client, user, secret, extensions=extensions)
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_an_expired_token_logs_in_and_is_closed_at_the_next_request(tmp_path: Path) -> None:
    """As in Kafka, until the check removes it."""
    clock = Clock()
    async with token_broker(tmp_path / "data", clock) as broker:
        token = await new_token(broker)
        clock.now_ms += 2 * DAY_MS
        async with wire_client(address(broker)) as client:
            answer = await token_login(client, token)
            assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
            with pytest.raises(ConnectionClosedError):
                await client.call(MetadataRequest(topics=[]), 1)
        assert broker.services is not None
        await broker.services.tokens.remove_expired()
        async with wire_client(address(broker)) as client:
            assert (await token_login(client, token)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_tokens_survive_a_restart_and_other_brokers_know_them(
    tmp_path: Path, registry_settings: dict[str, str]
) -> None:
    store, clock = (None if registry_settings else await EmbeddedStore.open()), Clock()
    async with token_broker(tmp_path / "one", clock, store, broker_id="1", **registry_settings) as one:
        token = await new_token(one)
    async with (
        token_broker(tmp_path / "one", clock, store, broker_id="1", **registry_settings) as one,
        token_broker(tmp_path / "two", clock, store, broker_id="2", **registry_settings) as two,
    ):
        for broker in (one, two):
            async with wire_client(address(broker)) as client:
                assert (await token_login(client, token)).error_code == 0
        later = await new_token(one)
        assert two.services is not None
        others = two.services.tokens
        alice = Principal("User", "alice")
        await until(lambda: len(others.described(alice, None)) == 2, "the other broker knows the new token")
        async with wire_client(address(one)) as client:
            await plain_login(client, "alice", "alice-secret")
            await client.call(ExpireDelegationTokenRequest(hmac=later.hmac, expiry_time_period_ms=-1))
        await until(lambda: len(others.described(alice, None)) == 1, "the other broker knows that it is removed")
    if store is not None:
        await store.close()


async def test_a_change_of_an_impossible_token_is_ignored_and_the_next_one_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with token_broker(tmp_path, Clock()) as broker:
        token = await new_token(broker)
        assert broker.services is not None
        tokens, registry = broker.services.tokens, broker.services.registry_access.registry
        await registry.delete(DelegationTokenZnode.path(token.token_id))
        for token_id in ("", "..", token.token_id):
            change = DelegationTokenChangeZnode(token_id=token_id)
            await registry.create(DelegationTokenChangeZnode.path(), change.encode(), sequence=True)
        await until(lambda: not tokens.described(Principal("User", "alice"), None), "the change after them is seen")
        assert caplog.text.count("a change of delegation tokens is ignored") == 2


@pytest.mark.parametrize("is_applied", [False, True], ids=["not applied", "applied"])
@pytest.mark.parametrize("write", [1, 2])
async def test_other_brokers_see_changes_of_tokens_whose_answers_are_lost(write: int, is_applied: bool) -> None:
    opened = await EmbeddedStore.open()
    registry = opened.session()
    await registry.start()
    await ensure_persistent_paths(registry)
    lossy = LossyRegistry(registry)
    lossy.is_applied = is_applied
    one, other = (TokenStore(each, lambda: 0, Backoff(), lambda token: None) for each in (lossy, registry))
    for tokens in (one, other):
        await tokens.start()
    following = asyncio.create_task(other.run())
    alice = str(Principal("User", "alice"))
    for expiry_ms in (1, 2):
        token = DelegationTokenZnode(
            token_id="t",
            owner=alice,
            token_requester=alice,
            renewers=[],
            issue_timestamp_ms=0,
            max_timestamp_ms=9,
            expiry_timestamp_ms=expiry_ms,
        )
        lossy.writes_left = write
        await (one.create(token) if expiry_ms == 1 else one.replace(token))
        await until(lambda token=token: other.find("t") == token, "the other broker knows it")
    lossy.writes_left = write
    await one.remove("t")
    await until(lambda: other.find("t") is None, "the other broker has forgotten it")
    following.cancel()
    await registry.close()
    await opened.close()


async def test_the_recorded_znode_of_a_token(tmp_path: Path, registry_settings: dict[str, str]) -> None:
    steps = [json.loads(line) for line in (SECURITY / "token-znodes.jsonl").read_text().splitlines()]
    (step,) = [one for one in steps if one["step"].startswith("token with renewers User:bob and")]
    (expected,) = [one for one in step["changed"] if one["path"].startswith("/delegation_token/tokens/")]
    clock = Clock()
    clock.now_ms = expected["value"]["issueTimestamp"]
    async with (
        token_broker(tmp_path / "data", clock, **registry_settings) as broker,
        wire_client(address(broker)) as client,
    ):
        await plain_login(client, "alice", "alice-secret")
        renewers = [CreatableRenewers(principal_type="User", principal_name=name) for name in ("bob", "carol")]
        token = await client.call(CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1))
        assert broker.services is not None
        registry = broker.services.registry_access.registry
        data, _ = await registry.get(f"/delegation_token/tokens/{token.token_id}")
        value = expected["value"] | {"tokenId": token.token_id}
        assert data == json.dumps(value, separators=(",", ":")).encode()
        (change,) = await registry.children("/delegation_token/token_changes")
        found, _ = await registry.get(f"/delegation_token/token_changes/{change}")
        assert found == token.token_id.encode()


async def test_an_authorizer_decides_about_the_tokens_of_others(tmp_path: Path) -> None:
    rights = {
        "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
        "super_users": "User:admin;User:ANONYMOUS",
    }
    of_bob = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    async with token_broker(tmp_path / "data", Clock(), **rights) as broker, contextlib.AsyncExitStack() as stack:
        sessions = Sessions(broker, stack)
        request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1, **of_bob)
        alice, admin, bob = [await sessions.of(user) for user in ("alice", "admin", "bob")]
        refused = await alice.call(request)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        created = await admin.call(request)
        assert (created.error_code, created.principal_name, created.token_requester_principal_name) == (
            0,
            "bob",
            "admin",
        )
        for client, version, count in [(alice, 3, 0), (bob, 3, 1), (admin, 3, 1), (admin, 0, 1), (alice, 0, 0)]:
            described = await client.call(DescribeDelegationTokenRequest(owners=None), version)
            assert (described.error_code, len(described.tokens)) == (0, count)
        for operation, kind, name in [
            ("DescribeTokens", "User", "User:bob"),
            ("Describe", "DelegationToken", created.token_id),
        ]:
            put_acls(broker, [allow("User:alice", operation, kind, name, "literal")])
            assert len((await alice.call(DescribeDelegationTokenRequest(owners=None))).tokens) == 1
        put_acls(broker, [allow("User:alice", "CreateTokens", "User", "User:bob", "literal")])
        assert (await alice.call(request)).error_code == 0
