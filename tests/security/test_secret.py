"""A secret is a text that no output shows, and a field that no `repr` shows."""

import pickle
from typing import NamedTuple

from security.secret import HIDDEN, Secret, hides, revealed


def test_a_secret_is_not_shown():
    secret = Secret("hunter2")
    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r}", "%s" % secret, repr({"a": secret})]  # noqa: UP031
    assert not [one for one in shown if "hunter2" in one]
    assert revealed(secret) == "hunter2"
    assert type(revealed(secret)) is str


def test_a_secret_is_a_text():
    secret = Secret("hunter2")
    assert secret == "hunter2"
    assert hash(secret) == hash("hunter2")
    assert secret.encode() == b"hunter2"
    again = pickle.loads(pickle.dumps(secret))
    assert again == secret
    assert type(again) is Secret
    assert revealed("plain") == "plain"
    assert Secret(secret) == "hunter2"


def test_a_hidden_field_is_not_shown():
    @hides("password")
    class Login(NamedTuple):
        user: str
        password: bytes

    login = Login("alice", b"hunter2")
    assert repr(login) == str(login) == f"{login}" == f"Login(user='alice', password={HIDDEN})"
    assert login == ("alice", b"hunter2")
