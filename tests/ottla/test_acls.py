"""`ottla acls`."""

import pytest

from broker.settings.checks import ACL_AUTHORIZER
from support.broker import broker_process


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker with an authorizer; the user of these commands is a super user."""
    settings = {"authorizer_class_name": ACL_AUTHORIZER, "super_users": "User:ANONYMOUS"}
    with broker_process(tmp_path_factory.mktemp("guarded") / "data", **settings) as process:
        yield process


@pytest.fixture
def acls(ottla, guarded, monkeypatch):
    """Run `ottla acls …` against it."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", guarded.bootstrap)

    def run(*words, code=0):
        return ottla("acls", *words, code=code)

    yield run
    for one in run("list", "--json").json:
        option = {"Topic": "--topic", "Group": "--group", "TransactionalId": "--transactional-id"}
        where = ("--cluster",) if one["resource_type"] == "Cluster" else (option[one["resource_type"]], one["name"])
        run("remove", *where, "--resource-pattern-type", "any", "--yes")


def short(result):
    """(resource, name, pattern, user, operation) of printed ACLs."""
    names = ("resource_type", "name", "pattern_type", "principal", "operation")
    return {" ".join(one[name] for name in names) for one in result.json}


def test_add_list_remove(acls):
    assert acls("list", "--json").json == []
    added = acls("add", "--allow-principal", "User:alice", "--operation", "read", "--topic", "t", "--json")
    one = {
        "resource_type": "Topic",
        "name": "t",
        "pattern_type": "literal",
        "principal": "User:alice",
        "host": "*",
        "operation": "Read",
        "permission": "Allow",
    }
    assert added.json == [one]
    assert acls("list", "--json").json == [one]
    assert acls("list", "--principal", "User:bob", "--json").json == []
    lines = acls("list", "--topic", "t").out.splitlines()
    assert [line.split() for line in lines] == [
        ["resource", "name", "pattern", "principal", "host", "operation", "permission"],
        ["Topic", "t", "literal", "User:alice", "*", "Read", "Allow"],
    ]
    assert acls("remove", "--topic", "t", "--deny-principal", "User:alice", "--json").json == []
    assert acls("remove", "--topic", "t", "--allow-principal", "User:alice", "--json").json == [one]
    assert acls("list", "--json").json == []


def test_what_a_producer_and_a_consumer_need(acls):
    who = ("--allow-principal", "User:alice")
    producer = acls("add", *who, "--producer", "--idempotent", "--topic", "t", "--transactional-id", "x", "--json")
    assert short(producer) == {
        "Topic t literal User:alice Write",
        "Topic t literal User:alice Describe",
        "Topic t literal User:alice Create",
        "TransactionalId x literal User:alice Write",
        "TransactionalId x literal User:alice Describe",
        "Cluster kafka-cluster literal User:alice IdempotentWrite",
    }
    both = acls("add", *who, "--producer", "--consumer", "--topic", "u", "--group", "g", "--json")
    assert short(both) == {
        "Topic u literal User:alice Write",
        "Topic u literal User:alice Describe",
        "Topic u literal User:alice Create",
        "Topic u literal User:alice Read",
        "Group g literal User:alice Read",
    }
    removed = acls("remove", *who, "--consumer", "--topic", "u", "--group", "g", "--json")
    assert len(removed.json) == 3
    assert short(acls("list", "--topic", "u", "--json")) == {
        "Topic u literal User:alice Write",
        "Topic u literal User:alice Create",
    }


def test_prefixes_hosts_and_denials(acls):
    words = ("--topic", "or", "--resource-pattern-type", "prefixed", "--operation", "Write")
    acls("add", "--allow-principal", "User:*", "--deny-principal", "User:eve", "--deny-host", "127.0.0.2", *words)
    found = acls("list", "--topic", "orders", "--resource-pattern-type", "match", "--json").json
    assert {(one["principal"], one["host"], one["permission"]) for one in found} == {
        ("User:*", "*", "Allow"),
        ("User:eve", "127.0.0.2", "Deny"),
    }
    assert acls("list", "--topic", "orders", "--json").json == []
    assert len(acls("remove", "--topic", "or", "--resource-pattern-type", "prefixed", "--json").json) == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "--topic", "t"), "give --allow-principal or --deny-principal"),
        (("add", "--allow-principal", "User:a"), "give a resource"),
        (("add", "--allow-principal", "alice", "--topic", "t"), "must be type:name, for example User:alice"),
        (("add", "--allow-principal", "User:a", "--topic", "t", "-o", "fly"), "must be one of All, Read"),
        (
            ("add", "--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "any"),
            "literal or prefixed",
        ),
        (("add", "--allow-principal", "User:a", "--topic", "t", "--idempotent"), "--idempotent needs --producer"),
        (("add", "--allow-principal", "User:a", "--consumer", "--topic", "t"), "--consumer needs --group"),
        (("add", "--allow-principal", "User:a", "--producer", "--group", "g"), "need --topic"),
        (("add", "--allow-principal", "User:a", "--producer", "--topic", "t", "--group", "g"), "goes with --consumer"),
        (("add", "--allow-principal", "User:a", "--producer", "--topic", "t", "-o", "Read"), "leave out --operation"),
        (("remove",), "give a resource"),
        (("list", "--resource-pattern-type", "regex"), "must be one of any, match, literal, prefixed"),
        (("add", "--allow-principal", "User:a", "--topic", "a/b"), "1 ACL not added, the last error"),
    ],
)
def test_mistakes(acls, words, why):
    assert why in acls(*words, code=1).err
