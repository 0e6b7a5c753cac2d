"""PLAIN, the server's side."""

from __future__ import annotations

import contextlib
import sys
from types import FrameType

import pytest

from security.principal import Principal
from security.sasl.errors import AuthenticationFailedError
from security.sasl.plain_server import PlainServer, PlainUsers

USERS = PlainUsers({"username": "admin", "password": "x", "user_alice": "alice-secret", "user_ü": "ä", "user_": "e"})


@pytest.mark.parametrize(
    ("message", "user"),
    [(b"\0alice\0alice-secret", "alice"), (b"alice\0alice\0alice-secret", "alice"), ("\0ü\0ä".encode(), "ü")],
)
def test_a_user_with_its_password_is_authenticated(message: bytes, user: str) -> None:
    server = PlainServer(USERS)
    assert server.step(message) == b""
    assert server.authenticated is not None
    assert server.authenticated.principal == Principal("User", user)
    assert server.authenticated.expires_ms is None
    assert not server.authenticated.is_token


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"alice", "expected 3 tokens, got 1"),
        (b"alice\0alice-secret", "expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0x", "expected 3 tokens, got 4"),
        (b"\0\0x", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0wrong", "Invalid username or password"),
        (b"\0admin\0x", "Invalid username or password"),
        (b"\0\xff\xfe\0x", "Invalid username or password"),
        (b"admin\0alice\0alice-secret", "authorization id that is different from username"),
        (b"admin\0alice\0wrong", "Invalid username or password"),
    ],
)
def test_others_are_not(message: bytes, shown: str) -> None:
    server = PlainServer(USERS)
    with pytest.raises(AuthenticationFailedError, match=shown) as failed:
        server.step(message)
    assert server.authenticated is None
    assert "wrong" not in str(failed.value) + failed.value.reason


def work(message: bytes) -> list[str]:
    """The names of the functions that an exchange calls, in their order."""
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)
        elif event == "c_call":
            called.append(getattr(argument, "__name__", ""))

    server = PlainServer(USERS)
    sys.setprofile(note)
    try:
        with contextlib.suppress(AuthenticationFailedError):
            server.step(message)
    finally:
        sys.setprofile(None)
    return called


def test_an_unknown_user_costs_the_work_of_a_wrong_password() -> None:
    """The time of an answer does not tell whether a user exists: the same functions are called, in the same order."""
    wrong_password = work(b"\0alice\0wrong-secret")
    assert work(b"\0nobod\0wrong-secret") == wrong_password
    assert "openssl_sha256" in wrong_password
    assert "compare_digest" in " ".join(wrong_password)


def test_an_unknown_user_and_a_wrong_password_look_the_same() -> None:
    shown = []
    for message in (b"\0alice\0x", b"\0nobody\0x"):
        with pytest.raises(AuthenticationFailedError) as failed:
            PlainServer(USERS).step(message)
        shown.append(str(failed.value))
    assert shown[0] == shown[1]
