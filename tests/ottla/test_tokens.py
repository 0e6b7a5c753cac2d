"""`ottla tokens`, and the admin client's methods for users and tokens, on a broker with SASL."""

from functools import partial

import pytest

from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from ottla import testing
from security.jaas import PLAIN_MODULE
from support.broker import settings
from support.sasl import listener_settings, sasl_listeners


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A broker with a key for tokens, and the settings of its user alice in a file."""
    folder = tmp_path_factory.mktemp("tokens")
    values = {
        **settings(folder / "data"),
        **sasl_listeners("SASL"),
        **listener_settings("SASL", "PLAIN", "SCRAM-SHA-256"),
        "delegation.token.secret.key": "key",
    }
    with testing.broker(values) as broker:
        yield broker.bootstrap_servers, client_config(folder, "alice")


def client_config(folder, user):
    """Write the settings of a user of PLAIN to a file."""
    config = folder / f"{user}.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="{user}" password="{user}-secret";\n'
    )
    return config


@pytest.fixture
def on_secured(ottla, secured):
    servers, config = secured
    return lambda *words, code=0: ottla(*words, "--bootstrap-server", servers, "--command-config", config, code=code)


def test_a_token_lives_and_ends(on_secured):
    assert on_secured("tokens", "list", "--json").json == []
    created = on_secured("tokens", "create", "--renewer", "User:bob", "--hours", 24, "--json").json
    assert (created["owner"], created["requester"]) == ("User:alice", "User:alice")
    assert created["renewers"] == ["User:bob"]
    assert created["max_ms"] - created["issued_ms"] == 24 * 3_600_000
    listed = on_secured("tokens", "list", "--owner", "User:alice", "--json").json
    assert listed == [{name: value for name, value in created.items() if name != "password"}]
    assert created["password"] not in on_secured("tokens", "list").out
    assert "expires" in on_secured("tokens", "renew", created["id"], "--hours", 1).out
    assert "there is no token" in on_secured("tokens", "renew", "nothing", code=1).err
    assert "expires" in on_secured("tokens", "expire", created["id"], "--hours", 1).out
    assert on_secured("tokens", "expire", created["id"]).out == f"{created['id']} removed\n"
    assert on_secured("tokens", "list", "--json").json == []
    assert "password" in on_secured("tokens", "create").out


def test_a_token_of_another_owner_needs_an_authorizer(on_secured):
    shown = on_secured("tokens", "create", "--owner", "User:bob", code=1)
    assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in shown.err


@pytest.mark.parametrize("words", [("--renewer", "bob"), ("--owner", "bob"), ("--hours", -1)])
def test_what_is_refused(on_secured, words):
    assert "must be" in on_secured("tokens", "create", *words, code=1).err


@pytest.fixture
def of(ottla, tmp_path):
    """Run the command as a user of a broker with an authorizer, whose super user is admin."""
    values = {
        **settings(tmp_path / "data"),
        **sasl_listeners("SASL"),
        **listener_settings("SASL", "PLAIN"),
        "listener.name.sasl.plain.sasl.jaas.config": (
            f"{PLAIN_MODULE} required user_admin=admin-secret user_alice=alice-secret user_bob=bob-secret;"
        ),
        "delegation.token.secret.key": "key",
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:admin;User:ANONYMOUS",
    }
    configs = {user: client_config(tmp_path, user) for user in ("admin", "alice", "bob")}
    with testing.broker(values) as broker:

        def run(user, *words, code=0):
            where = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", configs[user])
            return ottla(*words, *where, code=code)

        yield run


def test_a_token_for_another_owner(of):
    """KIP-373: the right CreateTokens on the owner lets a user create it, DescribeTokens lets a third one see it."""
    admin, alice, bob = (partial(of, user) for user in ("admin", "alice", "bob"))
    create = ("tokens", "create", "--owner", "User:carol", "--json")
    mine = ("tokens", "list", "--owner", "User:carol", "--json")
    assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in alice(*create, code=1).err

    may = ("acls", "add", "--user-principal", "User:carol", "--operation")
    admin(*may, "CreateTokens", "--allow-principal", "User:alice")
    token = alice(*create).json
    assert (token["owner"], token["requester"]) == ("User:carol", "User:alice")
    shown = alice("tokens", "create", "--owner", "User:carol").out
    assert shown.startswith("owner     User:carol\nid ")

    assert token["id"] in {one["id"] for one in alice(*mine).json}
    assert bob(*mine).json == []
    admin(*may, "DescribeTokens", "--allow-principal", "User:bob")
    assert {one["id"]: one["requester"] for one in bob(*mine).json}[token["id"]] == "User:alice"
    assert bob("tokens", "list", "--owner", "User:bob", "--json").json == []
    assert "DELEGATION_TOKEN_OWNER_MISMATCH" in alice("tokens", "renew", token["id"], code=1).err


async def test_a_token_logs_in(secured):
    servers, _ = secured
    protocol = {"bootstrap_servers": servers, "security_protocol": "SASL_PLAINTEXT"}
    alice = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": "alice-secret"}
    async with Admin(**protocol, **alice) as admin:
        token = await admin.create_delegation_token()
        assert token.password not in repr(token)
        assert str(token.hmac) not in repr(token)
        await admin.set_scram_password("carol", "pencil", ["SCRAM-SHA-256"])
        assert await admin.describe_scram_users(["carol"]) == {"carol": {"SCRAM-SHA-256": 4096}}
    carol = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "carol", "sasl_plain_password": "pencil"}
    async with Admin(**protocol, **carol) as admin:
        assert (await admin.describe_cluster()).brokers
        await admin.delete_scram_credentials("carol", ["SCRAM-SHA-256"])
        assert await admin.describe_scram_users() == {}
