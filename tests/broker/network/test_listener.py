"""Listeners: their syntax and the rules among them."""

import pytest

from broker.network.listener import Listener, check_ports, parse_listeners, parse_protocol_map
from storage.setting import ConfigError

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "INSIDE": "PLAINTEXT", "SSL": "SSL", "SASL": "SASL_SSL"}


def parse(text):
    return parse_listeners("listeners", text, PROTOCOLS)


@pytest.mark.parametrize(
    ("text", "listeners"),
    [
        ("PLAINTEXT://:9092", [Listener("PLAINTEXT", "", 9092)]),
        ("plaintext://localhost:9092", [Listener("PLAINTEXT", "localhost", 9092)]),
        (" PLAINTEXT://a:1 , Inside://b.c:2,", [Listener("PLAINTEXT", "a", 1), Listener("INSIDE", "b.c", 2)]),
        ("PLAINTEXT://[::1]:0", [Listener("PLAINTEXT", "::1", 0)]),
        ("PLAINTEXT://[fe80::1%eth0]:9", [Listener("PLAINTEXT", "fe80::1%eth0", 9)]),
        ("", []),
    ],
)
def test_syntax(text, listeners):
    assert list(parse(text)) == listeners


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("localhost:9092", "NAME://host:port"),
        ("PLAINTEXT://localhost", "NAME://host:port"),
        ("PLAINTEXT://localhost:", "NAME://host:port"),
        ("PLAINTEXT://localhost:-1", "NAME://host:port"),
        ("PLAINTEXT://loc alhost:1", "NAME://host:port"),
        ("://localhost:1", "NAME://host:port"),
        ("PLAINTEXT://a/b:1", "NAME://host:port"),
        ("PLAINTEXT://a:65536", "65535"),
        ("OTHER://a:1", "no security protocol for OTHER"),
        ("PLAINTEXT://a:1,plaintext://b:2", "PLAINTEXT occurs twice"),
    ],
)
def test_bad_listeners_are_refused(text, rule):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert caught.value.name == "listeners"
    assert text in str(caught.value)
    assert rule in str(caught.value)


@pytest.mark.parametrize("text", ["PLAINTEXT://:9092", "INSIDE://[::1]:1", "PLAINTEXT://a.b:0"])
def test_a_listener_formats_as_the_text_it_was_parsed_from(text):
    assert str(parse(text)[0]) == text


def test_at_moves_a_listener():
    listener = Listener("A", "", 0)
    assert listener.at(port=5) == Listener("A", "", 5)
    assert listener.at("h") == Listener("A", "h", 0)
    assert hash(listener.at()) == hash(listener)
    assert listener != "A://:0"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("PLAINTEXT://a:1,INSIDE://a:2", True),
        ("PLAINTEXT://a:0,INSIDE://b:0", True),
        ("PLAINTEXT://a:1,INSIDE://b:1", False),
        ("PLAINTEXT://127.0.0.1:1,INSIDE://[::1]:1", True),
        ("PLAINTEXT://127.0.0.1:1,INSIDE://127.0.0.2:1", False),
        ("PLAINTEXT://:1,INSIDE://[::1]:1", False),
    ],
)
def test_ports(text, good):
    if good:
        check_ports("listeners", parse(text))
    else:
        with pytest.raises(ConfigError, match="port 1 occurs twice"):
            check_ports("listeners", parse(text))


def test_protocol_map():
    assert parse_protocol_map("a:plaintext, B:SSL,") == {"A": "PLAINTEXT", "B": "SSL"}
    for text in ("A", "A:TLS"):
        with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
            parse_protocol_map(text)
