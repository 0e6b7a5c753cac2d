"""The settings of the console: each test shows the effect of some on a whole broker."""

import json
import logging

import pytest

from broker.console.server import ConsoleServer
from broker.errors import BrokerStartError
from broker.settings.config import BrokerConfig
from protocol.host_port import HostPort
from storage.setting import ConfigError
from support.broker import settings
from support.console import ask, basic, console_broker, password_file, token_file
from support.effects import shows
from support.schema_registry import RegistryThread

NETWORK = {"ottla.console.listener": "0.0.0.0:0"}


@shows("ottla.console.authentication", "ottla.console.password.file")
async def test_the_users_of_a_file(tmp_path):
    values = {"ottla.console.authentication": "password-file"} | password_file(tmp_path, alice="alice-secret")
    async with console_broker(tmp_path, values) as broker:
        assert (await ask(broker, "/api/cluster")).status == 401
        assert (await ask(broker, "/api/cluster", auth=basic("alice", "alice-secret"))).status == 200
        assert (await ask(broker, "/api/cluster", auth="Bearer alice-secret")).challenges[0].startswith("Basic")


@shows("ottla.console.token.file")
async def test_the_tokens_of_a_file(tmp_path):
    values = {"ottla.console.authentication": "token-file"} | token_file(tmp_path, prometheus="token")
    async with console_broker(tmp_path, values) as broker:
        assert (await ask(broker, "/metrics", auth="Bearer token")).status == 200
        assert (await ask(broker, "/metrics", auth="Bearer other")).status == 401


@shows("ottla.console.open")
async def test_metrics_can_be_open(tmp_path):
    values = {"ottla.console.authentication": "scram", "ottla.console.open": "metrics"}
    async with console_broker(tmp_path, values) as broker:
        assert (await ask(broker, "/metrics")).status == 200
        assert (await ask(broker, "/api/cluster")).status == 401


NO_LOGINS = "only users who have logged in may change something (ottla.console.authentication)"
CHANGE = {"method": "POST", "json": {"topic_name": "t"}}


async def topics_of(broker, **options):
    cluster = json.loads((await ask(broker, "/api/v1/session", **options)).text)["cluster_id"]
    return f"/v3/clusters/{cluster}/topics"


@shows("ottla.console.mode")
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, None),
        ({"ottla.console.mode": "full"}, None),
        ({"ottla.console.mode": "read-only"}, "The console is read-only: ottla.console.mode is read-only."),
        (
            NETWORK | {"ottla.console.open": "read"},
            f"The console is read-only: {NO_LOGINS}.",
        ),
    ],
)
async def test_the_mode_of_a_console_without_logins(tmp_path, values, said):
    async with console_broker(tmp_path, values) as broker:
        may_change = json.loads((await ask(broker, "/api/v1/session")).text)["may_change"]
        assert may_change is (said is None)
        answer = await ask(broker, await topics_of(broker), **CHANGE)
        if said is None:
            assert answer.status == 201
        else:
            assert (answer.status, json.loads(answer.text)) == (403, {"error_code": 40301, "message": said})
            for method in ("PUT", "PATCH", "DELETE", "POST"):
                refused = await ask(broker, "/no/such/path", method=method, json={})
                assert (refused.status, refused.text) == (403, f"{said}\n")


@pytest.mark.parametrize(("mode", "status"), [(None, 201), ("full", 201), ("read-only", 403)])
async def test_the_mode_of_a_console_with_logins(tmp_path, mode, status):
    values = NETWORK | {"ottla.console.authentication": "password-file"} | password_file(tmp_path, alice="a-secret")
    if mode is not None:
        values["ottla.console.mode"] = mode
    async with console_broker(tmp_path, values) as broker:
        auth = basic("alice", "a-secret")
        assert (await ask(broker, await topics_of(broker, auth=auth), auth=auth, **CHANGE)).status == status


async def test_a_console_that_is_off_has_health_and_metrics(tmp_path):
    async with console_broker(tmp_path, {"ottla.console.mode": "off"}) as broker:
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await ask(broker, path)).status == 200
        for path in ("/", "/topics", "/static/app.js", "/api/v1/session", "/v3/clusters", "/api/openapi.json"):
            assert (await ask(broker, path)).status == 404


@shows("ottla.console.hosts")
async def test_names_of_the_console(tmp_path):
    async with console_broker(tmp_path, {"ottla.console.hosts": "kafka.example.org"}) as broker:
        assert (await ask(broker, "/healthz", headers={"Host": "kafka.example.org:8080"})).status == 200
        assert (await ask(broker, "/healthz")).status == 403  # localhost


@shows("ottla.console.schema.registry.url", "ottla.console.schema.registry.basic.auth.user.info")
async def test_the_schema_registry(tmp_path):
    with RegistryThread(auth=("franz", "kafka")) as registry:
        number = registry.register("orders-value", '"string"')
        values = {
            "ottla.console.schema.registry.url": registry.url,
            "ottla.console.schema.registry.basic.auth.user.info": "franz:kafka",
        }
        async with console_broker(tmp_path, values) as broker:
            answer = await ask(broker, f"/api/v1/schemas/{number}")
            assert json.loads(answer.text)["text"] == '"string"'


@pytest.mark.parametrize(
    ("url", "user_info", "rule"),
    [
        ("ftp://127.0.0.1", None, "must be URLs such as"),
        ("http://franz:kafka@127.0.0.1:8081", None, "must not have a user and a password"),
        ("", "franz:kafka", "has no effect without ottla.console.schema.registry.url"),
        ("http://127.0.0.1:8081", "kafka", "must be user:password"),
    ],
)
def test_settings_of_the_schema_registry_that_are_refused(tmp_path, url, user_info, rule):
    values = {"ottla.console.schema.registry.url": url}
    if user_info is not None:
        values["ottla.console.schema.registry.basic.auth.user.info"] = user_info
    said = refusal(tmp_path, values)
    assert rule in said
    assert "kafka@" not in said
    assert "franz" not in said


def refusal(tmp_path, values):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(None, settings(tmp_path) | values)
    return str(caught.value)


LISTENING = {"ottla.console.listener": "127.0.0.1:0"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (NETWORK, "ottla.console.listener=0.0.0.0:0: everybody who reaches this address could read the console"),
        ({"ottla.console.listener": ":0"}, "ottla.console.listener=:0: everybody who reaches this address"),
        ({"ottla.console.listener": "broker.example:1"}, "ottla.console.listener=broker.example:1: everybody who"),
        ({"ottla.console.listener": "[::]:1"}, "ottla.console.listener=[::]:1: everybody who"),
        (
            NETWORK | {"ottla.console.mode": "full", "ottla.console.open": "read"},
            "ottla.console.mode=full: everybody who reaches ottla.console.listener could change the cluster: set",
        ),
        (LISTENING | {"ottla.console.authentication": "basic"}, "ottla.console.authentication=basic: every element"),
        (LISTENING | {"ottla.console.open": "all"}, "ottla.console.open=all: every element must be one of"),
        (
            LISTENING | {"ottla.console.authentication": "password-file"},
            "ottla.console.password.file: must be set because ottla.console.authentication has password-file",
        ),
        (
            LISTENING | {"ottla.console.password.file": "/x"},
            "ottla.console.password.file=/x: has no effect: ottla.console.authentication does not have password-file",
        ),
        (LISTENING | {"ottla.console.authentication": "token-file"}, "ottla.console.token.file: must be set"),
        (
            LISTENING | {"ottla.console.authentication": "scram", "ottla.console.open": "read"},
            "ottla.console.open=read: everybody could read without a login",
        ),
        (
            LISTENING | {"ottla.console.authentication": "oauthbearer"},
            "sasl.oauthbearer.jwks.endpoint.url: must be set because tokens must be signed",
        ),
        (
            LISTENING | {"ottla.console.sasl.oauthbearer.expected.audience": "x"},
            "ottla.console.sasl.oauthbearer.expected.audience: has no effect: ottla.console.authentication does not",
        ),
        (
            LISTENING | {"ottla.console.authentication": "certificate"},
            "ottla.console.ssl.client.auth: must be requested or required, with ottla.console.listener=https://",
        ),
    ],
)
def test_what_only_looks_safe_is_refused(tmp_path, values, said):
    assert refusal(tmp_path, values).startswith(said)


@pytest.mark.parametrize("opened", ["read", "metrics", ""])
async def test_an_address_of_the_network_needs_a_login_or_a_word(tmp_path, opened):
    async with console_broker(tmp_path, NETWORK | {"ottla.console.open": opened}) as broker:
        assert (await ask(broker, "/healthz")).status == 200
        assert (await ask(broker, "/metrics")).status == (200 if opened else 403)
        assert (await ask(broker, "/api/cluster")).status == (200 if opened == "read" else 403)
        if opened == "read":
            session = json.loads((await ask(broker, "/api/v1/session")).text)
            assert (session["user"], session["may_change"]) == (None, False)


async def test_what_counts_is_the_address_that_was_bound(tmp_path):
    """A name of the loopback address may be another address: /etc/hosts decides."""
    async with console_broker(tmp_path, {"ottla.console.listener": "localhost:0"}) as broker:
        other = ConsoleServer(broker.services, broker, HostPort("0.0.0.0", 0))
        with pytest.raises(BrokerStartError, match="everybody who reaches this address"):
            await other.bind()
    values = {"ottla.console.listener": "localhost:0", "ottla.console.mode": "full", "ottla.console.open": "read"}
    async with console_broker(tmp_path, values) as broker:
        other = ConsoleServer(broker.services, broker, HostPort("0.0.0.0", 0))
        with pytest.raises(BrokerStartError, match=r"ottla.console.mode=full: everybody who reaches"):
            await other.bind()


async def test_a_wrong_file_stops_the_start(tmp_path):
    (tmp_path / "users").write_text("alice:planted-secret\n")
    values = {"ottla.console.authentication": "password-file", "ottla.console.password.file": str(tmp_path / "users")}
    with pytest.raises(ConfigError) as caught:
        async with console_broker(tmp_path, values):
            pass
    assert str(caught.value).startswith(f"ottla.console.password.file={tmp_path / 'users'}: line 1: the hash must be")
    assert "planted" not in str(caught.value)


def test_passwords_in_plain_text_on_a_network_cause_a_warning(tmp_path):
    values = NETWORK | {"ottla.console.authentication": "scram"}
    (warning,) = BrokerConfig.load(None, settings(tmp_path) | values).warnings
    assert "plain text" in warning
    assert (
        BrokerConfig.load(None, settings(tmp_path) | LISTENING | {"ottla.console.authentication": "scram"}).warnings
        == []
    )


async def test_names_with_values_of_secrets_are_nowhere(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    values = {"ottla.console.authentication": "password-file"} | password_file(tmp_path, alice="planted-secret")
    async with console_broker(tmp_path, values) as broker:
        answer = await ask(broker, "/api/cluster", auth=basic("alice", "planted-secret"))
        metrics = await ask(broker, "/metrics", auth=basic("alice", "planted-secret"))
    for text in (answer.text, metrics.text, caplog.text, repr(broker.config), repr(broker.console)):
        assert "planted" not in text
        assert "$scrypt$" not in text
