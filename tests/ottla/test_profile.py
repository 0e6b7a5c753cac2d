"""Profiles: the file, the commands that change it, and the settings that reach the clients."""

import os
import socket
import stat
import threading
from contextlib import contextmanager

import pytest

from client.admin.options import AdminOptions
from client.consumer.options import ConsumerOptions
from client.producer.options import ProducerOptions
from ottla.command_line import client_settings, profiles


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "ottla" / "profiles.toml"
    monkeypatch.setenv("OTTLA_CONFIG", str(path))
    return path


def test_the_life_of_profiles(ottla, file):
    assert ottla("profile", "list", "--json").json == []
    said = ottla("profile", "create", "staging", "-b", "a:1,b:2", "--set", "linger.ms=20", "--set", "check.crcs=false")
    assert said.out == "profile staging written; it is the current profile\n"
    said = ottla("profile", "create", "prod", "--set", "client.id=me")
    assert said.out == "profile prod written; `ottla profile use prod` makes it the current profile\n"
    staging = {"linger.ms": 20.0, "check.crcs": False}
    assert ottla("profile", "list", "--json").json == [
        {"profile": "staging", "current": True, "bootstrap_servers": "a:1,b:2", "settings": staging},
        {"profile": "prod", "current": False, "bootstrap_servers": None, "settings": {"client.id": "me"}},
    ]
    assert [line.split() for line in ottla("profile", "list").out.splitlines()][1:] == [
        ["*", "staging", "a:1,b:2", "2"],
        ["prod", "-", "1"],
    ]
    shown = "staging  (current)\n  bootstrap.servers=a:1,b:2\n  linger.ms=20.0\n  check.crcs=false\n"
    assert ottla("profile", "show").out == shown
    assert ottla("profile", "use", "prod").out == "prod is the current profile\n"
    assert ottla("profile", "show", "--json").json["profile"] == "prod"
    assert ottla("profile", "delete", "prod").out == "profile prod deleted; no profile is the current one\n"
    assert "there is no current profile" in ottla("profile", "show", code=1).err
    assert ottla("profile", "use", "staging").out == "staging is the current profile\n"
    assert ottla("profile", "use", "--none").out == "no profile is the current one\n"
    assert ottla("profile", "delete", "staging").out == "profile staging deleted\n"
    assert ottla("profile", "list", "--json").json == []


def test_the_file_is_private_and_keeps_comments_links_and_its_own_spelling(ottla, file, tmp_path):
    kept = tmp_path / "dotfiles.toml"
    kept.write_text('# mine\n[profiles.one]  # the first\nbootstrap.servers = ["a:1", "b:2"]\nretry.backoff.ms = "7"\n')
    file.parent.mkdir()
    file.symlink_to(kept)
    ottla("profile", "use", "one")
    ottla("profile", "create", "two", "-b", "c:3")
    assert file.is_symlink()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.read_text().startswith('# mine\ncurrent = "one"\n\n[profiles.one]  # the first\nbootstrap.servers = [')
    assert ottla("profile", "show", "--json").json == {
        "profile": "one",
        "current": True,
        "bootstrap_servers": "a:1,b:2",
        "settings": {"retry.backoff.ms": 7},
    }
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".tmp"] == []


def test_a_profile_is_not_overwritten_by_accident(ottla, file):
    ottla("profile", "create", "one", "-b", "a:1")
    assert (
        f"profile one exists in {file}; --replace replaces it"
        in ottla("profile", "create", "one", "-b", "b:2", code=1).err
    )
    assert ottla("profile", "create", "one", "-b", "b:2", "--replace").out.endswith("it is the current profile\n")
    assert ottla("profile", "show", "one", "--json").json["bootstrap_servers"] == "b:2"


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (
            ("--set", "request.timout.ms=5"),
            "unknown client setting request.timout.ms (did you mean request.timeout.ms?)",
        ),
        (("--set", "request_timeout_ms=5"), "(did you mean request.timeout.ms?)"),
        (("--set", "metadata.broker.list=a"), "unknown client setting metadata.broker.list: use bootstrap.servers"),
        (("--set", "zk.synctime.ms=1"), "it is gone from Kafka"),
        (("--set", "sasl.mechanism=PLAIN"), "needs security_protocol SASL_PLAINTEXT or SASL_SSL"),
        (("--set", "group.id=g"), "group.id is not a setting of a profile: use --group of the command"),
        (("--set", "value.serializer=x"), "unknown client setting value.serializer"),
        (("--set", "request.timeout.ms=soon"), "request.timeout.ms=soon: must be a whole number"),
        (("--set", "linger.ms=soon"), "linger.ms=soon: must be a number"),
        (("--set", "check.crcs=maybe"), "check.crcs=maybe: must be true or false"),
        (("--set", "request.timeout.ms=0"), "request.timeout.ms=0: must be at least 1"),
        (("--set", "acks=2"), "acks='2': must be one of all, -1, 0, 1"),
        (("-b", "host:port"), "bootstrap.servers='host:port': the port must be a number"),
        (("-b", "a:1", "--set", "bootstrap.servers=b:2"), "not both"),
        ((), "an empty profile has no use"),
    ],
)
def test_wrong_settings_are_refused(ottla, file, words, clue):
    assert clue in ottla("profile", "create", "one", *words, code=1).err
    assert not file.exists()


def test_names_are_checked(ottla, file):
    assert "profile name 'a b': must consist of" in ottla("profile", "create", "a b", "-b", "a:1", code=1).err
    ottla("profile", "create", "staging", "-b", "a:1")
    for words in (("use", "stagin"), ("show", "stagin"), ("delete", "stagin")):
        assert f"there is no profile stagin in {file} (did you mean staging?)" in ottla("profile", *words, code=1).err
    assert "create it with `ottla profile create x" in ottla("profile", "use", "x", code=1).err
    assert "either the name of a profile or --none" in ottla("profile", "use", code=1).err


@pytest.mark.parametrize(
    ("text", "clue"),
    [
        ("current = ", "is not a TOML file"),
        ('curent = "x"', "unknown key curent (did you mean current?)"),
        ("profiles = 1", "profiles a table of profiles"),
        ("current = 1", "current must be a text"),
        ("[profiles]\none = 1", "profiles.one must be a table of settings"),
        ("[profiles.one]\nacks = 1979-05-27", "profile one in"),
        ("[profiles.one]\nlinger_ms = 1", "did you mean linger.ms?"),
        ("[profiles.one]\nrequest.timeout.ms = 0", "request.timeout.ms=0: must be at least 1"),
    ],
)
def test_a_wrong_file_is_named(ottla, file, text, clue):
    file.parent.mkdir()
    file.write_text(text)
    said = ottla("topics", "list", "--profile", "one", code=1).err
    assert clue in said
    assert str(file) in said
    ottla("topics", "list", "--help")


def test_where_the_file_is(monkeypatch, tmp_path):
    monkeypatch.delenv("OTTLA_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert profiles.path() == tmp_path / "ottla" / "profiles.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profiles.path() == tmp_path / ".config" / "ottla" / "profiles.toml"


def test_settings_become_keywords_of_the_clients_that_have_them():
    settings = client_settings.typed({"linger.ms": "5", "default.api.timeout.ms": 7, "check.crcs": True})
    assert client_settings.keywords(settings, AdminOptions) == {"default_api_timeout_ms": 7}
    assert client_settings.keywords(settings, ProducerOptions) == {"linger_ms": 5.0}
    assert client_settings.keywords(settings, ConsumerOptions) == {"api_timeout_ms": 7, "check_crcs": True}


@contextmanager
def listener():
    """Accept connections and close each after its first bytes. Yields the address and the list of these bytes."""
    heard = []

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                heard.append(connection.recv(1000))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}", heard
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "list"),
        ("produce", "orders", os.devnull),
        ("consume", "orders"),
        ("consume", "orders", "--group", "g"),
        ("perf", "produce", "orders"),
        ("perf", "consume", "orders"),
    ],
    ids=" ".join,
)
def test_the_settings_reach_every_client(ottla, file, words):
    with listener() as (address, heard):
        ottla("profile", "create", "one", "-b", address, "--set", "client.id=from-the-profile")
        ottla(*words, code=1)
    assert heard
    assert all(b"from-the-profile" in frame for frame in heard)


def test_a_setting_without_an_option_reaches_the_client(ottla, file):
    ottla("profile", "create", "one", "-b", "127.0.0.1:1", "--set", "enable.idempotence=true")
    assert 'must be "all" with enable_idempotence' in ottla("produce", "orders", "--acks", "1", code=1).err


def test_a_setting_is_the_default_of_its_option(on, broker, file):
    on("profile", "create", "fast", "--set", "acks=0", "--set", "compression.type=zstd")
    on("topics", "create", "profiled")
    refused = "acks='5': must be one of"
    assert refused in on("produce", "profiled", os.devnull, "--acks", "5", code=1).err
    for words in (("produce", "profiled"), ("--profile", "fast", "produce", "profiled")):
        on(*words, "--quiet", stdin=b"x\n" * 100)
    (log,) = broker.log_dir.glob("profiled-0/*.log")
    batches = on("dump-log", log).out
    assert "zstd" in batches.lower()
