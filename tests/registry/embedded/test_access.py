"""ACLs of the embedded registry: who may do what, and which entries can be stored."""

import pytest

from registry.embedded.access import Caller, Identity, checked_acl, require
from registry.errors import InvalidAclError, NoAuthError
from registry.interface import OPEN_ACL, Acl, Permission

ANYONE = Caller(1)
ALICE = Caller(1, (Identity("ip", "10.1.2.3"), Identity("digest", "alice:hash")))
BOB = Caller(2, (Identity("ip", "10.9.2.3"), Identity("digest", "bob:hash")))


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        (Acl(Permission.READ, "world", "anyone"), [ANYONE, ALICE, BOB]),
        (Acl(Permission.READ, "digest", "alice:hash"), [ALICE]),
        (Acl(Permission.READ, "ip", "10.1.0.0/16"), [ALICE]),
        (Acl(Permission.READ, "ip", "10.9.2.3"), [BOB]),
        (Acl(Permission.WRITE, "digest", "alice:hash"), []),
        (Acl(Permission.READ, "sasl", "alice:hash"), []),
    ],
)
def test_who_may_read(entry, allowed):
    for caller in (ANYONE, ALICE, BOB):
        if caller in allowed:
            require((entry,), Permission.READ, "/a", caller)
        else:
            with pytest.raises(NoAuthError, match=r"^/a: "):
                require((entry,), Permission.READ, "/a", caller)


def test_one_of_several_permissions_is_enough():
    require((Acl(Permission.ADMIN, "world", "anyone"),), Permission.READ | Permission.ADMIN, "/a", ANYONE)


@pytest.mark.parametrize(
    "entry",
    [
        Acl(31, "world", "alice"),
        Acl(31, "digest", "alice"),
        Acl(31, "digest", "a:b:c"),
        Acl(31, "ip", "10.0.0.0/40"),
        Acl(31, "ip", "nowhere"),
        Acl(31, "kerberos", "alice"),
        Acl(31, "sasl", "alice\nworld:anyone"),
    ],
)
def test_entries_that_cannot_be_stored(entry):
    with pytest.raises(InvalidAclError, match=r"^/a: "):
        checked_acl([entry], "/a", ALICE)


def test_the_scheme_auth_stands_for_the_identities_of_the_session():
    """But not for its address, as in ZooKeeper."""
    assert checked_acl([Acl(31, "auth", "")], "/a", ALICE) == (Acl(31, "digest", "alice:hash"),)
    with pytest.raises(InvalidAclError, match="has authenticated"):
        checked_acl([Acl(31, "auth", "")], "/a", ANYONE)
    with pytest.raises(InvalidAclError, match="is empty"):
        checked_acl([], "/a", ALICE)


def test_the_identities_of_a_session_are_checked_too():
    """The file writes an ACL as lines."""
    mallory = Caller(1, (Identity("digest", "mallory\nworld:hash"),))
    with pytest.raises(InvalidAclError, match="not possible in an ACL"):
        checked_acl([Acl(31, "auth", "")], "/a", mallory)


def test_an_acl_has_at_most_100_entries():
    entries = [Acl(1, "ip", f"10.0.0.{number}") for number in range(101)]
    assert len(checked_acl(entries[:100], "/a", ALICE)) == 100
    with pytest.raises(InvalidAclError, match="has 101 entries"):
        checked_acl(entries, "/a", ALICE)


def test_equal_entries_are_stored_once_and_the_open_acl_is_the_shared_one():
    twice = [Acl(1, "digest", "alice:hash"), Acl(1, "digest", "alice:hash")]
    assert checked_acl(twice, "/a", ANYONE) == (twice[0],)
    assert checked_acl([Acl(*OPEN_ACL[0])], "/a", ANYONE) is OPEN_ACL
