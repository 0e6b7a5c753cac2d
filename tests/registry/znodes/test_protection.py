"""The ACLs of znodes: those that Kafka's broker and its migration tool have set."""

import json

import pytest

from registry.interface import OPEN_ACL
from registry.znodes.protection import PROTECTED_ROOTS, default_acl
from support.reference import REFERENCE


def recorded(name):
    return json.loads((REFERENCE / "security" / f"zookeeper-{name}.json").read_text())


def as_recorded(acl):
    """Write an ACL as the recording does; there, the creator was the SASL user kafka."""
    names = {"auth:": "sasl:kafka"}
    return [f"{names.get(f'{one.scheme}:{one.id}', f'{one.scheme}:{one.id}')}:{one.permissions}" for one in acl]


@pytest.mark.parametrize("name", ["set-acl", "secured"])
def test_every_recorded_znode(name):
    rows = [row for row in recorded(name) if row["path"] != "/"]  # nobody creates the root
    assert len(rows) > 60
    for row in rows:
        assert as_recorded(default_acl(row["path"])) == row["acl"], row["path"]


def test_without_protection():
    assert all(row["acl"] == ["world:anyone:31"] for row in recorded("unsecured"))
    assert default_acl("/config/users", is_protected=False) == OPEN_ACL


def test_the_roots_are_those_that_the_migration_changes():
    changed = {"/" + row["path"].split("/")[1] for row in recorded("secured") if row["acl"] != ["world:anyone:31"]}
    assert changed - {"/"} <= set(PROTECTED_ROOTS)
    assert set(PROTECTED_ROOTS) - changed == {"/controller"}  # the broker was down


@pytest.mark.parametrize("path", ["/consumers/g", "/kafka-acl", "/config/usersX", "/else"])
def test_beginnings_of_paths_as_in_kafka(path):
    assert len(default_acl(path)) == (1 if path.startswith("/config/users") else 2)
