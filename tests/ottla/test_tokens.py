"""`ottla tokens`, and the admin client's methods for users and tokens, on a broker with SASL."""

import pytest

from client.admin.admin import Admin
from ottla import testing
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
    config = folder / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="alice" password="alice-secret";\n'
    )
    with testing.broker(values) as broker:
        yield broker.bootstrap_servers, config


@pytest.fixture
def on_secured(ottla, secured):
    servers, config = secured
    return lambda *words, code=0: ottla(*words, "--bootstrap-server", servers, "--command-config", config, code=code)


def test_a_token_lives_and_ends(on_secured):
    assert on_secured("tokens", "list", "--json").json == []
    created = on_secured("tokens", "create", "--renewer", "User:bob", "--hours", 24, "--json").json
    assert (created["owner"], created["renewers"]) == ("User:alice", ["User:bob"])
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


@pytest.mark.parametrize("words", [("--renewer", "bob"), ("--hours", -1)])
def test_what_is_refused(on_secured, words):
    assert "must be" in on_secured("tokens", "create", *words, code=1).err


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
