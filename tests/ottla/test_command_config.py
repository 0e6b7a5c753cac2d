"""`--command-config FILE` and security from the environment: for every command, before or after it."""

import pytest

from ottla import testing
from ottla.command_line import profiles
from security.jaas import PLAIN_MODULE
from support.certificates import authority, server_certificate

PREFIX = "listener.name.secured."
SECRET = "alice-secret"
LOGIN = f'sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN_MODULE} required username="alice" password="{SECRET}";\n'


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """The address of a SASL_SSL listener, and the file of the trusted authority."""
    folder = tmp_path_factory.mktemp("certificates")
    settings = {
        "listeners": "SECURED://127.0.0.1:0",
        "listener.security.protocol.map": "SECURED:SASL_SSL",
        "inter.broker.listener.name": "SECURED",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{PREFIX}sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}plain.sasl.jaas.config": f"{PLAIN_MODULE} required username=b password=b user_b=b "
        f'user_alice="{SECRET}";',
        f"{PREFIX}ssl.keystore.type": "PEM",
        f"{PREFIX}ssl.keystore.location": str(server_certificate().write(folder / "server.pem")),
        f"{PREFIX}ssl.truststore.type": "PEM",
        f"{PREFIX}ssl.truststore.location": str(authority().write(folder / "ca.pem")),
    }
    with testing.broker(settings) as broker:
        yield broker.bootstrap_servers, folder / "ca.pem"


@pytest.fixture
def file(tmp_path, secured):
    path = tmp_path / "client.properties"
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={secured[1]}\n"
    path.write_text(f"security.protocol=SASL_SSL\n{trust}{LOGIN}")
    return path


def test_before_and_after_the_command(ottla, secured, file):
    server, _ = secured
    ottla("--command-config", file, "topics", "create", "one", "-b", server)
    assert "one" in ottla("topics", "list", "-b", server, "--command-config", file).out
    ottla("-b", server, "produce", "one", "--command-config", file, "--quiet", stdin=b"a record\n")
    read = ("consume", "one", "--from-beginning", "--count", "1", "-b", server, "--command-config", file)
    assert ottla(*read).out == "a record\n"


def test_the_variable_names_the_file(ottla, secured, file, monkeypatch):
    monkeypatch.setenv("OTTLA_COMMAND_CONFIG", str(file))
    ottla("topics", "list", "-b", secured[0])


def test_settings_in_the_environment(ottla, secured, monkeypatch):
    for name, value in {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SSL_TRUSTSTORE_TYPE": "PEM",
        "SSL_TRUSTSTORE_LOCATION": str(secured[1]),
        "SASL_MECHANISM": "PLAIN",
        "SASL_PLAIN_USERNAME": "alice",
        "SASL_PLAIN_PASSWORD": SECRET,
    }.items():
        monkeypatch.setenv(f"OTTLA_{name}", value)
    ottla("topics", "list", "-b", secured[0])
    monkeypatch.setenv("OTTLA_SASL_PASSWORD", SECRET)
    said = ottla("topics", "list", "-b", secured[0], code=1).err
    assert "OTTLA_SASL_PASSWORD is no setting" in said


def test_a_password_in_the_environment_completes_a_profile(ottla, secured, monkeypatch):
    words = ["security.protocol=SASL_SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={secured[1]}"]
    words += ["sasl.mechanism=PLAIN", "sasl.plain.username=alice", f"sasl.plain.password={SECRET}"]
    ottla("profile", "create", "one", "-b", secured[0], *(part for word in words for part in ("--set", word)))
    assert SECRET in profiles.path().read_text()
    ottla("topics", "list")
    for shown in (ottla("profile", "show"), ottla("profile", "show", "--json"), ottla("profile", "list", "--json")):
        assert SECRET not in shown.out
        assert "sasl" in shown.out
    profiles.path().write_text(
        "".join(profiles.path().read_text().partition("sasl.plain.password")[0].rpartition("\n")[:2])
    )
    assert "sasl.plain.password" in ottla("topics", "list", code=1).err
    monkeypatch.setenv("OTTLA_SASL_PLAIN_PASSWORD", SECRET)
    ottla("topics", "list")


@pytest.mark.parametrize("words", [("--command-config", "--profile"), ("--profile", "--command-config")])
def test_the_file_replaces_settings_of_the_profile(ottla, secured, file, words):
    ottla("profile", "create", "one", "-b", secured[0], "--set", "security.protocol=PLAINTEXT")
    path = profiles.path()  # a profile that is complete only with the file
    path.write_text(path.read_text().replace('"PLAINTEXT"', '"SASL_SSL"'))
    values = {"--command-config": file, "--profile": "one"}
    ottla("topics", "list", *(part for word in words for part in (word, values[word])))


def test_a_wrong_password(ottla, secured, file):
    file.write_text(file.read_text().replace(SECRET, "hunter2"))
    said = ottla("topics", "list", "-b", secured[0], "--command-config", file, code=1).err
    assert "SASL_AUTHENTICATION_FAILED" in said
    assert "hunter2" not in said


def test_settings_without_an_effect(ottla, secured, file):
    with file.open("a") as more:
        more.write("reconnect.backoff.ms=50\nsasl.login.refresh.window.factor=0.8\n")
    said = ottla("topics", "list", "-b", secured[0], "--command-config", file).err
    assert "no effect: reconnect.backoff.ms, sasl.login.refresh.window.factor" in said


@pytest.mark.parametrize(
    ("line", "clue"),
    [
        ("ssl.engine.factory.class=com.example.Factory", "unknown client setting ssl.engine.factory.class"),
        ("sasl.kerberos.keytab=/etc/a.keytab", "unknown client setting sasl.kerberos.keytab"),
        ("sasl.kerberos.service.name=kafka", "is only for sasl_mechanism GSSAPI"),
        ("ssl.truststore.locaton=ca.pem", "did you mean ssl.truststore.location"),
        ("sasl.login.callback.handler.class=com.example.Handler", "unknown client setting"),
        ("security.protocol=PLAINTEXT", "needs security_protocol SSL or SASL_SSL"),
    ],
)
def test_security_without_an_effect_is_refused(ottla, secured, file, line, clue):
    with file.open("a") as more:
        more.write(line + "\n")
    said = ottla("topics", "list", "-b", secured[0], "--command-config", file, code=1).err
    assert clue in said
    assert SECRET not in said


def test_a_file_that_does_not_exist(ottla):
    assert "no.properties" in ottla("topics", "list", "--command-config", "no.properties", code=1).err


def test_a_command_that_does_not_connect(ottla, file):
    assert "has no option --command-config" in ottla("--command-config", file, "profile", "list", code=1).err
