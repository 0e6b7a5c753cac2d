"""Checks of passwords: what is remembered, and that unknown users cost as much as wrong passwords."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from broker.console import passwords
from broker.console.passwords import Passwords, ScramPassword, Source
from security.sasl.scram import SCRAM_MECHANISMS, ScramCredential


@dataclass
class Stored:
    """A credential that counts its checks."""

    password: str
    checks: list[str] = field(default_factory=list, compare=False)

    def verifies(self, password: str) -> bool:
        self.checks.append(password)
        return password == self.password


class Users:
    def __init__(self, **users: str) -> None:
        self.users = {name: Stored(password) for name, password in users.items()}
        self.nobody = Stored("")
        self.source = Source(lambda user: [self.users[user]] if user in self.users else [], self.nobody)
        self.passwords = Passwords([self.source])


async def test_a_right_password_is_checked_once() -> None:
    users = Users(alice="a")
    for _ in range(3):
        assert await users.passwords.are_right("alice", "a")
    assert users.users["alice"].checks == ["a"]


async def test_a_wrong_password_is_checked_each_time() -> None:
    users = Users(alice="a")
    for _ in range(2):
        assert not await users.passwords.are_right("alice", "b")
    assert users.users["alice"].checks == ["b", "b"]


async def test_an_unknown_user_costs_a_check_and_is_never_right() -> None:
    users = Users()
    assert not await users.passwords.are_right("alice", "x")
    assert not await users.passwords.are_right("alice", "")
    assert users.nobody.checks == ["x", ""]


async def test_a_user_is_looked_for_in_every_source() -> None:
    one, other = Users(alice="a"), Users(bob="b")
    both = Passwords([one.source, other.source])
    assert not await both.are_right("alice", "x")
    assert (one.users["alice"].checks, other.nobody.checks) == (["x"], ["x"])
    assert await both.are_right("bob", "b")
    assert one.nobody.checks == ["b"]


async def test_what_is_remembered_ends_with_the_credential() -> None:
    users = Users(alice="a")
    assert await users.passwords.are_right("alice", "a")
    users.users["alice"] = Stored("b")
    assert not await users.passwords.are_right("alice", "a")
    assert await users.passwords.are_right("alice", "b")
    del users.users["alice"]
    assert not await users.passwords.are_right("alice", "b")


async def test_a_password_is_not_that_of_another_user_with_the_same_letters() -> None:
    users = Users(ab="c", a="x")
    assert await users.passwords.are_right("ab", "c")
    assert not await users.passwords.are_right("a", "bc")


async def test_the_memory_is_bounded() -> None:
    users = Users(**{f"u{number}": "p" for number in range(5)})
    bounded = Passwords([users.source], max_remembered=3)
    for _ in range(2):
        for number in range(5):
            assert await bounded.are_right(f"u{number}", "p")
    assert len(bounded._remembered) <= 3


async def test_checks_run_one_at_a_time() -> None:
    users = Users(alice="a", bob="b")
    await asyncio.gather(*(users.passwords.are_right(user, "x") for user in ("alice", "bob", "alice")))
    assert users.users["alice"].checks == ["x", "x"]
    assert users.users["bob"].checks == ["x"]


def test_a_scram_credential_knows_its_password() -> None:
    for mechanism in SCRAM_MECHANISMS.values():
        stored = ScramPassword(mechanism, ScramCredential.of_password(mechanism, "pencil"))
        assert stored.verifies("pencil")
        assert not stored.verifies("Pencil")
        assert not stored.verifies("")
    assert "hidden" in repr(stored)


def test_nobody_has_no_password() -> None:
    for nobody in (passwords.unknown_scram_user(), passwords.unknown_user_of_file()):
        assert not nobody.verifies("")
