"""`ottla quotas`."""

import pytest


def listed(on, *words):
    found = on("quotas", "list", *words, "--json").json
    return {(one["user"], one["client_id"], one["ip"]): one["quotas"] for one in found}


def test_quotas_are_set_listed_and_removed(on):
    on("quotas", "set", "producer_byte_rate=1000", "request_percentage=12.5", "--user", "quota user")
    on("quotas", "set", "consumer_byte_rate=2000", "--user", "quota user", "--client-id", "app")
    on("quotas", "set", "connection_creation_rate=7000", "--ip-default")
    both = {
        ("quota user", None, None): {"producer_byte_rate": 1000, "request_percentage": 12.5},
        ("quota user", "app", None): {"consumer_byte_rate": 2000},
    }
    assert listed(on, "--user", "quota user") == both
    assert listed(on) == both | {(None, None, "<default>"): {"connection_creation_rate": 7000}}
    assert listed(on, "--client-id", "app") == {("quota user", "app", None): {"consumer_byte_rate": 2000}}
    lines = [line.split() for line in on("quotas", "list", "--user", "quota user").out.splitlines()]
    assert lines[0] == ["user", "client", "id", "ip", "quota", "value"]
    assert ["quota", "user", "request_percentage", "12.5"] in lines
    assert on("quotas", "remove", "request_percentage", "--user", "quota user").out == "removed from user quota user\n"
    assert listed(on, "--user", "quota user")[("quota user", None, None)] == {"producer_byte_rate": 1000}
    on("quotas", "remove", "--user", "quota user")
    on("quotas", "remove", "--user", "quota user", "--client-id", "app")
    on("quotas", "remove", "--ip-default")
    assert listed(on) == {}


def test_quotas_may_only_be_checked(on):
    words = ("quotas", "set", "producer_byte_rate=1", "--user-default", "--validate-only")
    assert on(*words).out == "could be set\n"
    assert listed(on) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("set", "producer_byte_rate=1"), "give --user, --client-id or --ip"),
        (("set", "producer_byte_rate=1", "--ip", "10.0.0.1", "--user", "u"), "--ip cannot be combined"),
        (("set", "producer_byte_rate=1", "--user", "u", "--user-default"), "not both"),
        (("set", "producer_byte_rate=many", "--user", "u"), "is not a number"),
        (("set", "producer_byte_rate", "--user", "u"), "is not name=value"),
        (("set", "producer_byte_rate=0.5", "--user", "u"), "must be a LONG value"),
        (("set", "speed=1", "--user", "u"), "speed"),
        (("remove", "speed", "--user", "u"), "unknown quota speed: quotas of user u are producer_byte_rate"),
    ],
)
def test_wrong_words(ottla, broker, words, message):
    failed = ottla("quotas", *words, "--bootstrap-server", broker.bootstrap, code=1)
    assert message in failed.err
