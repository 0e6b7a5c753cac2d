"""Checks of passwords: what is remembered, and that unknown users cost as much as wrong passwords."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from broker.console import passwords
from broker.console.passwords import (
    MAX_CHECKS,
    MAX_CHECKS_OF_ADDRESS,
    Passwords,
    ScramPassword,
    Source,
    TooManyChecksError,
    scram_sources,
)
from security.sasl.scram import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from security.sasl.scram_server import FindCredential
from support.deadlines import DEADLINE_S


@dataclass
class Peer:
    """A client."""

    host: str = "192.0.2.1"
    closed: bool = False


CLIENT = Peer()


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
        assert await users.passwords.are_right("alice", "a", CLIENT)
    assert users.users["alice"].checks == ["a"]


async def test_a_wrong_password_is_checked_each_time() -> None:
    users = Users(alice="a")
    for _ in range(2):
        assert not await users.passwords.are_right("alice", "b", CLIENT)
    assert users.users["alice"].checks == ["b", "b"]


async def test_an_unknown_user_costs_a_check_and_is_never_right() -> None:
    users = Users()
    assert not await users.passwords.are_right("alice", "x", CLIENT)
    assert not await users.passwords.are_right("alice", "", CLIENT)
    assert users.nobody.checks == ["x", ""]


async def test_a_user_is_looked_for_in_every_source() -> None:
    one, other = Users(alice="a"), Users(bob="b")
    both = Passwords([one.source, other.source])
    assert not await both.are_right("alice", "x", CLIENT)
    assert (one.users["alice"].checks, other.nobody.checks) == (["x"], ["x"])
    assert await both.are_right("bob", "b", CLIENT)
    assert one.nobody.checks == ["b"]


async def test_what_is_remembered_ends_with_the_credential() -> None:
    users = Users(alice="a")
    assert await users.passwords.are_right("alice", "a", CLIENT)
    users.users["alice"] = Stored("b")
    assert not await users.passwords.are_right("alice", "a", CLIENT)
    assert await users.passwords.are_right("alice", "b", CLIENT)
    del users.users["alice"]
    assert not await users.passwords.are_right("alice", "b", CLIENT)


async def test_a_password_is_not_that_of_another_user_with_the_same_letters() -> None:
    users = Users(ab="c", a="x")
    assert await users.passwords.are_right("ab", "c", CLIENT)
    assert not await users.passwords.are_right("a", "bc", CLIENT)


async def test_the_memory_is_bounded() -> None:
    users = Users(**{f"u{number}": "p" for number in range(5)})
    bounded = Passwords([users.source], max_remembered=3)
    for _ in range(2):
        for number in range(5):
            assert await bounded.are_right(f"u{number}", "p", CLIENT)
    assert len(bounded._remembered) <= 3


async def test_checks_run_one_at_a_time() -> None:
    users = Users(alice="a", bob="b")
    await asyncio.gather(*(users.passwords.are_right(user, "x", CLIENT) for user in ("alice", "bob", "alice")))
    assert users.users["alice"].checks == ["x", "x"]
    assert users.users["bob"].checks == ["x"]


class Slow(Stored):
    """A credential whose checks take until `may_end`."""

    may_end = threading.Event()

    def verifies(self, password: str) -> bool:
        self.may_end.wait()
        return super().verifies(password)


@dataclass
class Queue:
    """Checks of a slow password."""

    stored: Slow
    passwords: Passwords
    tasks: list[asyncio.Task[bool]] = field(default_factory=list)

    async def add(self, client: Peer, password: str = "wrong") -> asyncio.Task[bool]:
        self.tasks.append(asyncio.create_task(self.passwords.are_right("alice", password, client)))
        await asyncio.sleep(0)  # the task runs until it waits
        return self.tasks[-1]

    async def end(self) -> list[bool | BaseException]:
        self.stored.may_end.set()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
def queue() -> Iterator[Queue]:
    stored = Slow("a")
    stored.may_end = threading.Event()
    yield Queue(stored, Passwords([Source(lambda user: [stored], Stored(""))]))
    stored.may_end.set()


async def test_few_checks_of_one_address_may_wait(queue: Queue) -> None:
    for _ in range(MAX_CHECKS_OF_ADDRESS):
        await queue.add(Peer())
    with pytest.raises(TooManyChecksError):
        await asyncio.wait_for(await queue.add(Peer()), DEADLINE_S)
    other = await queue.add(Peer("192.0.2.2"), "a")
    await queue.end()
    assert await other
    assert not await queue.passwords.are_right("alice", "wrong", Peer())  # there is room again


async def test_few_checks_of_all_addresses_may_wait(queue: Queue) -> None:
    for number in range(MAX_CHECKS):
        await queue.add(Peer(f"192.0.2.{number}"))
    with pytest.raises(TooManyChecksError):
        await asyncio.wait_for(await queue.add(Peer("192.0.2.200")), DEADLINE_S)
    assert await queue.end() == [False] * MAX_CHECKS + [queue.tasks[-1].exception()]


async def test_the_passwords_of_clients_that_have_left_are_not_checked(queue: Queue) -> None:
    first, second = Peer(), Peer()
    await queue.add(first)
    await queue.add(second)
    first.closed = second.closed = True
    wrong, left = await queue.end()
    assert (wrong, type(left)) == (False, ConnectionResetError)
    assert queue.stored.checks == ["wrong"]


async def test_a_password_that_waited_for_its_own_check_is_checked_once(queue: Queue) -> None:
    for _ in range(3):
        await queue.add(Peer(), "a")
    assert await queue.end() == [True, True, True]
    assert queue.stored.checks == ["a"]


def test_a_scram_credential_knows_its_password() -> None:
    for mechanism in SCRAM_MECHANISMS.values():
        stored = ScramPassword(mechanism, ScramCredential.of_password(mechanism, "pencil"))
        assert stored.verifies("pencil")
        assert not stored.verifies("Pencil")
        assert not stored.verifies("")
    assert "hidden" in repr(stored)


async def test_scram_users_cost_one_check_of_each_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str] = []
    verifies = ScramPassword.verifies

    def counted(stored: ScramPassword, password: str) -> bool:
        checks.append(stored.mechanism.name)
        return verifies(stored, password)

    monkeypatch.setattr(ScramPassword, "verifies", counted)
    users = {"both": list(SCRAM_MECHANISMS), "one": ["SCRAM-SHA-256"], "other": ["SCRAM-SHA-512"], "nobody": []}

    class Credentials:
        def of(self, mechanism: ScramMechanism) -> FindCredential:
            stored = ScramCredential.of_password(mechanism, "pencil")
            return lambda user: stored if mechanism.name in users[user] else None

    passwords = Passwords(scram_sources(Credentials()))  # type: ignore[arg-type]
    for user, mechanisms in users.items():
        checks.clear()
        assert not await passwords.are_right(user, "wrong", Peer())
        assert checks == list(SCRAM_MECHANISMS)
        assert await passwords.are_right(user, "pencil", Peer()) == bool(mechanisms)


def test_nobody_has_no_password() -> None:
    nobodies = [passwords.unknown_scram_user(mechanism) for mechanism in SCRAM_MECHANISMS.values()]
    for nobody in (*nobodies, passwords.unknown_user_of_file()):
        assert not nobody.verifies("")
